#!/usr/bin/env python3
"""A preprocessor of mdBook: links from pages to files outside of the book become addresses of the repository.

The address is the `repository` of the workspace in Cargo.toml. Without arguments it reads the book from standard
input, as mdBook sends it; `--check` converts one page of its own and fails if the result is wrong.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = ROOT / "docs/src"
LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(#[^)\s]*)?(?=\))")


def repository():
    manifest = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^repository = "([^"]+)"$', manifest, re.M)[1]


def converted(content, page, address):
    """The content of a page, which is named as in SUMMARY.md."""

    def link(match):
        target = (BOOK / page).parent.joinpath(match[1]).resolve()
        if target.is_relative_to(BOOK) or not target.is_relative_to(ROOT):
            return match[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{address}/{kind}/main/{target.relative_to(ROOT).as_posix()}{match[2] or ''}"

    return LINK.sub(link, content)


def convert(node, address):
    """Chapters lie in lists of chapters, whose names differ between versions of mdBook."""
    if isinstance(node, list):
        for each in node:
            convert(each, address)
    elif isinstance(node, dict):
        if isinstance(node.get("content"), str) and node.get("path"):
            node["content"] = converted(node["content"], node["path"], address)
        for each in node.values():
            convert(each, address)


def check():
    book = {"items": [{"Chapter": {"path": "client/queues.md", "sub_items": [{"Chapter": {
        "path": "service.md", "content": "[a](terms.md#b) [c](../../examples/service) `[d](e)`"}}],
        "content": "[a](../../../examples/queue/main.rs#L7) [b](../terms.md) [c](https://x.example/y) [d](#e)"}}]}
    convert(book, "https://repository.example")
    chapter = book["items"][0]["Chapter"]
    assert chapter["content"] == (
        "[a](https://repository.example/blob/main/examples/queue/main.rs#L7) [b](../terms.md) "
        "[c](https://x.example/y) [d](#e)"
    ), chapter["content"]
    below = chapter["sub_items"][0]["Chapter"]["content"]
    assert below == (
        "[a](terms.md#b) [c](https://repository.example/tree/main/examples/service) `[d](e)`"
    ), below
    assert repository().startswith("https://")


def main():
    if sys.argv[1:] == ["--check"]:
        check()
    elif sys.argv[1:2] != ["supports"]:
        _context, book = json.load(sys.stdin)
        convert(book, repository())
        json.dump(book, sys.stdout)


main()
