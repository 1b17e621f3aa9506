#!/usr/bin/env python3
"""Copies programs of `examples` into the pages that show them; with --check, fails where a page differs.

A page has a comment with the file, and the parts of it, in front of a block of code:

    <!-- examples/unique/main.rs: declare, struct User -->

A part is what stands between `// ANCHOR: declare` and `// ANCHOR_END: declare`, or an item of the file by its
first words, with its attributes and doc comments. In front of the parts stand the imports of the file that they use
and that no block above has shown. Without parts it is the file without its introduction.
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


USE = re.compile(r"^use ([^;]+);$", re.M | re.S)
# Traits are used by their methods, so their names do not occur.
METHODS = {
    "FutureExt": ["boxed", "now_or_never", "shared"],
    "IntoResponse": ["into_response"],
    "StreamExt": ["next", "buffered", "buffer_unordered", "collect"],
    "TryStreamExt": ["try_next", "try_collect", "try_for_each", "map_ok", "try_filter"],
    "SubscriberExt": ["with"],
}


def leaves(tree, before=""):
    """The paths of `a::{b, c::{d, e}}`: `a::b`, `a::c::d`, `a::c::e`."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        return [before + head.strip()] if head.strip() else []
    found, depth, start, rest = [], 0, 0, rest.strip().removesuffix("}")
    for at, letter in enumerate(rest + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            found += leaves(rest[start:at], before + head)
            start = at + 1
    return found


def joined(paths):
    """The contents of a `use` of these paths, which have one beginning."""
    heads = {}
    for path in paths:
        head, _, rest = path.partition("::")
        heads.setdefault(head, []).append(rest)
    parts = []
    for head, rests in heads.items():
        below = joined([rest for rest in rests if rest])
        own = [head] if "" in rests else []
        parts += own if not below else [f"{head}::{below}"] + own
    return parts[0] if len(parts) == 1 else "{" + ", ".join(parts) + "}" if parts else ""


def imports(text, code, known):
    """The imports of a file that this code uses, without those in `known`, which gets them."""
    code = re.sub(r"//.*", "", code)
    groups = [[]]
    for block in re.split(r"\n\n(?=use )", text):
        groups.append([])
        for declaration in USE.findall(block):
            used = []
            for path in leaves(declaration):
                path, _, alias = path.partition(" as ")
                name = path.rsplit("::", 1)[-1]
                name = path.split("::")[-2] if name == "self" else name
                methods = METHODS.get(name, [])
                name = alias if alias not in ("", "_") else name
                words = [rf"\.{method}(::<[^(]*>)?\(" for method in methods] + [rf"(?<![.\w]){name}\b"]
                full = path + (f" as {alias}" if alias else "")
                if full not in known and any(re.search(word, code) for word in words):
                    known.add(full)
                    used.append(full)
            if used:
                line = f"use {joined(used)};"
                if len(line) > 100 and line.endswith("};"):
                    head, _, rest = line.partition("{")
                    indent = {"initial_indent": "    ", "subsequent_indent": "    "}
                    inner = textwrap.fill(rest[:-2] + ",", 100, **indent)
                    line = f"{head}{{\n{inner}\n}};"
                groups[-1].append(line)
    return "\n\n".join("\n".join(group) for group in groups if group)


def program(path, parts, known):
    text = (ROOT / path).read_text()
    lines = text.split("\n")
    if parts:
        found = [item(lines, part) if " " in part else between_anchors(lines, part) for part in parts]
        missing = [part for part, text in zip(parts, found) if not text]
        if missing:
            sys.exit(f"{path} has no part {missing[0]!r}")
        code = "\n\n".join(found)
        used = imports(text, code, known.setdefault(path, set()))
        return f"{used}\n\n{code}" if used else code
    lines = [line for line in lines if not line.startswith("//!") and not ANCHOR.search(line)]
    text = re.sub(r"#!\[expect\([^\]]*\)\]\n", "", "\n".join(lines))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def with_programs(page):
    known = {}

    def block(match):
        parts = [part.strip() for part in (match[2] or "").split(",") if part.strip()]
        comment = match[0].split("\n", 1)[0]
        return f"{comment}\n```rust,ignore\n{program(match[1], parts, known)}\n```"

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
