"""Reads cassettes, the YAML files in which vcrpy records exchanges, with the standard library alone.

It reads the YAML that PyYAML writes: block and flow collections, all scalars but the folded ones, tags, and
aliases. `interactions` is what other modules call.
"""

import base64
import re
from typing import Any, Iterator

SPACE = re.compile(r"[ ]*")
BLANK = re.compile(r"(?:[ ]*(?:#[^\n]*)?\n)*[ ]*")
ANYTHING_BLANK = re.compile(r"\s*")
PROPERTY = re.compile(r"([!&])([^\s,\[\]{}]*)")
ALIAS = re.compile(r"\*([^\s,\[\]{}]+)")
KEY = re.compile(r"""('(?:[^'\n]|'')*'|"(?:[^"\\\n]|\\.)*"|[^\s'"\[\]{}&*!|>%@`#,][^\n]*?)[ ]*:(?=\s)""")
SINGLE = re.compile(r"'((?:[^']++|'')*+)'")
DOUBLE = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.S)
PLAIN = re.compile(r"[^\n]*")
FLOW_PLAIN = re.compile(r"(?:[^,\[\]{}:]++|:(?!\s))*+")
LITERAL = re.compile(r"\|([0-9]?)([+-]?)[ ]*\n")
FOLD = re.compile(r"[ \t]*\n((?:[ \t]*\n)*)[ \t]*")
ESCAPE = re.compile(r"\\(?:x(..)|u(....)|U(........)|\n[ \t]*|(.))|[ \t]*\n((?:[ \t]*\n)*)[ \t]*")
ESCAPED = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
           "e": "\x1b", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}


def interactions(text: str) -> Iterator[dict[str, Any]]:
    """The exchanges of a cassette. Raises ValueError if the text is not one."""
    try:
        document = Reader(text.replace("\r\n", "\n") + "\n").node(0)
        found = document["interactions"]
        for interaction in found:
            request, response = interaction["request"], interaction["response"]
            yield {
                "method": request["method"],
                "uri": request["uri"],
                "request_headers": headers(request.get("headers")),
                "request_body": content(request.get("body")),
                "status": int(response["status"]["code"]),
                "response_headers": headers(response.get("headers")),
                "response_body": content(response.get("body")) or b"",
            }
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"not a cassette: {error!r}") from error


def headers(recorded: Any) -> dict[str, str]:
    """Headers by lower-case name; a recorded value is a text or a list of them."""
    return {
        name.lower(): ", ".join(map(plain, value)) if isinstance(value, list) else plain(value)
        for name, value in (recorded or {}).items()
    }


def plain(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def content(body: Any) -> bytes | None:
    """A body's bytes: of a text, of an answer's mapping, or of a stream that was recorded as an object."""
    if isinstance(body, dict):
        body = body["string"] if "string" in body else body.get("state")
    if isinstance(body, list):
        body = body[0]
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body or None


class Reader:
    """A position in a text, and the anchors that came before it."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.anchors = text, 0, {}

    def node(self, least: int) -> Any:
        """The block node that begins at the next token, unless that stands left of column `least`."""
        self.take(BLANK)
        column = self.column()
        if self.at >= len(self.text) or column < least:
            return None
        if self.is_item():
            return self.sequence(column)
        if KEY.match(self.text, self.at):
            return self.mapping(column)
        return self.value(least - 1, False)

    def sequence(self, column: int) -> list[Any]:
        found = []
        while self.column() == column and self.is_item():
            self.at += 1
            self.take(SPACE)
            inner = self.column()
            if self.text[self.at] != "\n" and (self.is_item() or KEY.match(self.text, self.at)):
                found.append(self.sequence(inner) if self.is_item() else self.mapping(inner))
            else:
                found.append(self.value(column, False))
            self.take(BLANK)
        return found

    def mapping(self, column: int) -> dict[str, Any]:
        found = {}
        while self.column() == column and not self.is_item() and (key := KEY.match(self.text, self.at)):
            name = Reader(key[1] + "\n").scalar(-1)
            self.at = key.end()
            found[name] = self.value(column, True)
            self.take(BLANK)
        return found

    def value(self, parent: int, is_mapping: bool) -> Any:
        """What follows a key or a dash in column `parent`."""
        tag, anchor = self.properties(SPACE)
        if self.text[self.at] == "\n":
            self.take(BLANK)
            is_list = is_mapping and self.column() == parent and self.is_item()
            value = self.node(parent if is_list else parent + 1)
        else:
            value = self.flow() if self.text[self.at] in "[{" else self.scalar(parent)
        return self.keep(value, tag, anchor)

    def flow(self) -> Any:
        """A value inside brackets, or a collection in brackets."""
        tag, anchor = self.properties(ANYTHING_BLANK)
        first = self.text[self.at]
        if first == "[":
            value: Any = []
            while not self.ends("]"):
                value.append(self.flow())
        elif first == "{":
            value = {}
            while not self.ends("}"):
                key = self.flow()
                self.take(ANYTHING_BLANK)
                value[key] = None
                if self.text[self.at] == ":":
                    self.at += 1
                    value[key] = self.flow()
        elif first in "'\"*":
            value = self.scalar(-1)
        else:
            value = null(folded(self.take(FLOW_PLAIN).strip()))
        return self.keep(value, tag, anchor)

    def ends(self, bracket: str) -> bool:
        """Goes past the opening bracket or a comma; whether the closing one follows."""
        if self.text[self.at] in "[{,":
            self.at += 1
        self.take(ANYTHING_BLANK)
        if self.text[self.at] == ",":
            self.at += 1
            self.take(ANYTHING_BLANK)
        if self.text[self.at] != bracket:
            return False
        self.at += 1
        return True

    def scalar(self, parent: int) -> Any:
        first = self.text[self.at]
        if first == "*":
            return self.anchors[self.groups(ALIAS)[1]]
        if first == "'":
            return folded(self.groups(SINGLE)[1]).replace("''", "'")
        if first == '"':
            return ESCAPE.sub(unescaped, self.groups(DOUBLE)[1])
        if first == "|":
            return self.literal(parent)
        if first == ">":
            raise ValueError("folded scalars are not read")
        lines = [self.take(PLAIN)]
        while (deeper := re.compile(rf"\n(?:[ ]*\n)*[ ]{{{parent + 1},}}(?=\S)[^\n]*").match(self.text, self.at)):
            lines.append(deeper[0])
            self.at = deeper.end()
        return null(folded("".join(lines).strip()))

    def literal(self, parent: int) -> str:
        head = self.groups(LITERAL)
        lines, indent = [], parent + int(head[1]) if head[1] else None
        while self.at < len(self.text):
            end = self.text.index("\n", self.at)
            line = self.text[self.at:end]
            if line.strip():
                width = len(line) - len(line.lstrip(" "))
                indent = width if indent is None else indent
                if width < max(indent, parent + 1):
                    break
            lines.append(line[indent or 0:])
            self.at = end + 1
        self.at -= 1  # The newline belongs to what follows.
        text = "\n".join(lines).rstrip("\n") if head[2] != "+" else "\n".join(lines)
        return text if head[2] == "-" else text + "\n"

    def properties(self, blank: re.Pattern[str]) -> tuple[str, str]:
        tag = anchor = ""
        self.take(blank)
        while found := PROPERTY.match(self.text, self.at):
            tag, anchor = (found[2], anchor) if found[1] == "!" else (tag, found[2])
            self.at = found.end()
            self.take(blank)
        return tag, anchor

    def keep(self, value: Any, tag: str, anchor: str) -> Any:
        if tag == "!binary":
            value = base64.b64decode(value)
        elif value is None and tag in ("!python/unicode", "!python/str", "!str"):
            value = ""
        if anchor:
            self.anchors[anchor] = value
        return value

    def is_item(self) -> bool:
        return self.text[self.at:self.at + 2] in ("- ", "-\n")

    def column(self) -> int:
        return self.at - self.text.rfind("\n", 0, self.at) - 1

    def take(self, pattern: re.Pattern[str]) -> str:
        return self.groups(pattern)[0]

    def groups(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if not found:
            raise ValueError(f"cannot be read: {self.text[self.at:self.at + 40]!r}")
        self.at = found.end()
        return found


def null(text: str) -> str | None:
    return None if text in ("", "null", "~") else text


def folded(text: str) -> str:
    """Line breaks as YAML means them: one is a space, and of several the first is none."""
    return FOLD.sub(lambda found: "\n" * found[1].count("\n") or " ", text) if "\n" in text else text


def unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code:
        return chr(int(code, 16))
    if found[4]:
        return ESCAPED.get(found[4], found[4])
    if found[0].startswith("\\"):
        return ""
    return "\n" * found[5].count("\n") or " "
