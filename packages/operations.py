#!/usr/bin/env python3
"""Writes the names of operations into both packages; with --check, fails where a file differs.

They are those of `Operation` in `crates/rowkey-emulator/src/front/operation.rs`.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "crates/rowkey-emulator/src/front/operation.rs"
PYTHON = ROOT / "packages/python/src/rowkey_server/_operations.py"
NODE = ROOT / "packages/node/server/operations.d.ts"


def operations():
    """The names, in the order of the source."""
    text = SOURCE.read_text()
    listed = text[text.index("\noperations! {") :]
    names = re.findall(r"^    (\w+) (?:Blob|Queue|Table) (?:read|write),", listed, re.M)
    return names + ["UnknownBlob", "UnknownQueue", "UnknownTable"]


def python(names):
    lines = "".join(f'    "{name}",\n' for name in names)
    return (
        '"""The names of operations and services. Written by `packages/operations.py`."""\n\n'
        "from typing import Literal\n\n"
        '#: A service of an account.\nService = Literal["blob", "queue", "table"]\n\n'
        "#: An operation of one of the services, named as in their REST reference.\n"
        f"Operation = Literal[\n{lines}]\n"
    )


def node(names):
    lines = "".join(f'\n  | "{name}"' for name in names)
    return (
        "// The names of operations and services. Written by `packages/operations.py`.\n\n"
        '/** A service of an account. */\nexport type Service = "blob" | "queue" | "table";\n\n'
        "/** An operation of one of the services, named as in their REST reference. */\n"
        f"export type Operation ={lines};\n"
    )


def main():
    names, differs = operations(), False
    for path, text in [(PYTHON, python(names)), (NODE, node(names))]:
        if not path.exists() or path.read_text() != text:
            differs = True
            if "--check" in sys.argv[1:]:
                print(f"{path.relative_to(ROOT)} differs from the operations of the server: run packages/operations.py")
            else:
                path.write_text(text)
    sys.exit(differs and "--check" in sys.argv[1:])


main()
