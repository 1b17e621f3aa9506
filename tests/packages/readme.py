#!/usr/bin/env python3
"""Writes the files that a README tells its reader to make: readme.py README FOLDER

They are the blocks of code below a line that names the file in backticks and ends with a colon.
"""

import pathlib
import re
import sys

FILE = re.compile(r"^`(?P<name>[\w.]+)`[^\n`]*:\n\n```\w+\n(?P<text>.*?)^```$", re.M | re.S)


def main():
    readme, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True)
    files = list(FILE.finditer(readme.read_text()))
    if len(files) < 2:
        sys.exit(f"{readme} names {len(files)} files: a service and its test were expected")
    for file in files:
        (folder / file["name"]).write_text(file["text"])
        print(f"{file['name']}, {file['text'].count(chr(10))} lines")


main()
