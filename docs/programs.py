#!/usr/bin/env python3
"""Copies programs of `examples` into the pages that show them; with --check, fails where a page differs.

A page has a comment with the file, and the parts of it, in front of a block of code:

    <!-- examples/unique/main.rs: declare, struct User -->

A part is what stands between `// ANCHOR: declare` and `// ANCHOR_END: declare`, or an item of the file by its
first words, with its attributes and doc comments. Without parts it is the file without its introduction.
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^<!-- (examples/\S+\.rs)(?:: ([^\n]+?))? -->\n```rust,ignore\n.*?^```$", re.M | re.S)
ANCHOR = re.compile(r"// ANCHOR(_END)?: (\w+)$")


def between_anchors(lines, name):
    """The lines of an anchor, without those of others, as far to the left as they go."""
    found, is_inside = [], False
    for line in lines:
        mark = ANCHOR.search(line)
        if mark is None:
            found += [line] * is_inside
        elif mark[2] == name:
            is_inside = mark[1] is None
    return textwrap.dedent("\n".join(found)).strip("\n")


def item(lines, head):
    """A struct, function or implementation at the left margin, with what belongs to it above."""
    start = re.compile(r"(pub(\(crate\))? )?(async )?" + re.escape(head) + r"\b")
    at = next((number for number, line in enumerate(lines) if start.match(line)), None)
    if at is None:
        return ""
    first, last = at, at
    while first and lines[first - 1].startswith(("#[", "///")):
        first -= 1
    if not lines[at].endswith((";", "}")):
        last = next(number for number in range(at, len(lines)) if lines[number].startswith(("}", ");")))
    return "\n".join(lines[first : last + 1])


def program(path, parts):
    lines = (ROOT / path).read_text().split("\n")
    if parts:
        found = [item(lines, part) if " " in part else between_anchors(lines, part) for part in parts]
        missing = [part for part, text in zip(parts, found) if not text]
        if missing:
            sys.exit(f"{path} has no part {missing[0]!r}")
        return "\n\n".join(found)
    lines = [line for line in lines if not line.startswith("//!") and not ANCHOR.search(line)]
    text = re.sub(r"#!\[expect\([^\]]*\)\]\n", "", "\n".join(lines))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def with_programs(page):
    def block(match):
        parts = [part.strip() for part in (match[2] or "").split(",") if part.strip()]
        comment = match[0].split("\n", 1)[0]
        return f"{comment}\n```rust,ignore\n{program(match[1], parts)}\n```"

    return BLOCK.sub(block, page)


def main():
    is_check, differs = "--check" in sys.argv[1:], []
    for path in sorted((ROOT / "docs/src").rglob("*.md")):
        page = path.read_text()
        new = with_programs(page)
        if new != page:
            differs.append(path.relative_to(ROOT))
            if not is_check:
                path.write_text(new)
    for path in differs:
        print(f"{path} {'differs from its program: run docs/programs.py' if is_check else 'is written'}")
    sys.exit(bool(differs) and is_check)


main()
