#!/usr/bin/env python3
"""compile_alone.py BUILD JOBS [--all] [--changed]: whether each source file compiles by itself.

CI compiles eight files as one, where a file may use a name that only its neighbour declares; elsewhere, and under `pip
install .`, each is compiled alone. Reads BUILD/compile_commands.json of a build without unity, and only checks syntax: no
code is made. Files that the build generates are left out and, without --all, those of tests. With --changed only those that
the last twenty commits or the working tree have changed, or the header of the same name; all where there is no such
history. Ends with 1 where one fails.
"""
import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys

COMMITS = 20


def check(entry):
    words = shlex.split(entry["command"])
    if pathlib.Path(words[0]).name == "ccache":
        words = words[1:]
    output = words.index("-o")
    words = [word for word in words[:output] + words[output + 2:] if not word.startswith("-O")]
    done = subprocess.run([*words, "-fsyntax-only", "-w"], cwd=entry["directory"], capture_output=True, text=True)
    return entry["file"], done.returncode == 0, done.stderr


def is_of_tests(file):
    return file.endswith(("_test.cc", "_fuzz.cc")) or "/tests/" in file


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else None


def changed_stems():
    """Paths without their ending; None where git does not know."""
    root, shallow = git("rev-parse", "--show-toplevel"), git("rev-parse", "--is-shallow-repository")
    in_commits = git("log", "-n", str(COMMITS), "--name-only", "--pretty=", "--first-parent")
    in_tree, new = git("diff", "--name-only", "HEAD"), git("ls-files", "--others", "--exclude-standard", "--full-name")
    if shallow != ["false"] or None in (root, in_commits, in_tree, new):
        return None
    return {pathlib.Path(root[0], name).with_suffix("") for name in in_commits + in_tree + new}


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    jobs = int(sys.argv[2])
    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
               if build not in pathlib.Path(entry["file"]).parents and ("--all" in sys.argv or not is_of_tests(entry["file"]))]
    if not entries or any("/Unity/" in entry["file"] for entry in entries):
        sys.exit(f"{build} has no files to check, or compiles several as one: configure it without CMAKE_UNITY_BUILD.")
    stems = changed_stems() if "--changed" in sys.argv else None
    if stems is not None:
        entries = [entry for entry in entries if pathlib.Path(entry["file"]).with_suffix("") in stems]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for number, (file, is_right, errors) in enumerate(pool.map(check, entries), 1):
            if not is_right:
                failed += 1
                print(f"{file} does not compile alone:\n{errors}", file=sys.stderr)
            if number % 100 == 0:
                print(f"{number} of {len(entries)} files", file=sys.stderr)
    print(f"{len(entries) - failed} of {len(entries)} files compile alone")
    sys.exit(min(failed, 1))


if __name__ == "__main__":
    main()
