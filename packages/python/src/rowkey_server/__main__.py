"""Runs the program: `python -m rowkey_server --help`."""

import os
import subprocess
import sys

from ._program import find_program


def main() -> None:
    command = [find_program(), *sys.argv[1:]]
    if os.name == "posix":
        # In place of this process, so that signals reach the program.
        os.execv(command[0], command)
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
