"""`python -m pergola doctor`: the command line `pergola`, which the package carries."""
import os
import pathlib
import sys


def main() -> None:
    """Becomes the program `pergola`, with the same arguments."""
    here = pathlib.Path(__file__).absolute().parent  # not resolved: the build tree's files are links
    for program in (here / "bin" / "pergola", here.parents[1] / "bin" / "pergola"):
        if program.is_file():
            os.execv(program, [str(program), *sys.argv[1:]])
    sys.exit(f"The program pergola is not in this installation: {here / 'bin'} should have it.")


if __name__ == "__main__":
    main()
