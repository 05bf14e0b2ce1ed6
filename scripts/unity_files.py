"""unity_files.py BUILD FOLDER...: the C++ files that the compiler is given in a build, one a line.

Of the targets below the folders, tests and fuzz targets left out. In a unity build these are the files that include
others.
"""
import json
import pathlib
import re
import shlex
import sys

build = pathlib.Path(sys.argv[1]).resolve()
folders = sys.argv[2:]
root = pathlib.Path(__file__).resolve().parent.parent
for command in json.loads((build / "compile_commands.json").read_text()):
    words = shlex.split(command["command"])
    target = words[words.index("-o") + 1]
    file = pathlib.Path(command["file"])
    if target.split("/")[0] not in folders or file.suffix == ".c":
        continue
    if re.search(r"_(test|fuzz)\.dir/", target) or re.search(r"_(test|fuzz)\.cc$", file.name):
        continue
    print(file.relative_to(root))
