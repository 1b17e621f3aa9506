#!/usr/bin/env python3
"""Records the terminals that pages show, as SVG; with --check, fails where a page and its recording differ.

A page has a comment with the commands in front of the image:

    <!-- terminal backup
    # rowkey tables create empty
    $ rowkey export --all backup
    -->
    ![..](backup.svg)

Lines with `$` are run and shown, lines with `#` are only run. Each recording has a rowkey-server of its own with two accounts, `shop` (the
one of the environment) and `staging` (a profile of that name), and the airports of examples/data in the table `airports` of `shop`: the
state is the PartitionKey, the code is the RowKey. The programs are those of `target/debug`, or of the folder in ROWKEY_PROGRAMS.
"""

import csv
import html
import json
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

import fcntl

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs/src/cli"
BLOCK = re.compile(r"^<!-- terminal (\S+)\n(.*?)^-->$", re.M | re.S)
COLUMNS = 100
# Not of any account that exists.
KEY = "cmVjb3JkZWQgZXhhbXBsZXMgb2YgdGhlIGNvbW1hbmQ="
COLORS = {"31": "#b3261e", "32": "#1e7d34", "33": "#8a6100", "34": "#1a5fb4", "36": "#00707a"}


class Screen:
    """What a terminal shows: the characters, carriage returns and erasures that progress lines use."""

    def __init__(self):
        self.lines, self.row, self.column, self.style = [[]], 0, 0, ""

    def put(self, character):
        if self.column == COLUMNS:
            self.feed("\n")
        if character == "\t":
            return self.feed(" " * (8 - self.column % 8))
        line = self.lines[self.row]
        line += [(" ", "")] * (self.column + 1 - len(line))
        line[self.column] = (character, self.style)
        self.column += 1

    def control(self, parameters, letter):
        number = int(parameters or "1") if (parameters or "1").isdigit() else 1
        if letter == "K":
            line = self.lines[self.row]
            del line[0 if parameters == "2" else self.column :]
        elif letter == "A":
            self.row = max(0, self.row - number)
        elif letter == "G":
            self.column = number - 1
        elif letter == "m":
            for one in (parameters or "0").split(";"):
                self.style = "" if one == "0" else COLORS.get(one, "bold" if one == "1" else self.style)

    def feed(self, text):
        for match in re.finditer(r"\x1b\[\??([\d;]*)([A-Za-z])|\x1b.|(.)", text, re.S):
            if match[2]:
                self.control(match[1], match[2])
            elif match[3] == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append([])
                self.column = 0
            elif match[3] == "\r":
                self.column = 0
            elif match[3]:
                self.put(match[3])

    def text(self):
        return "\n".join("".join(character for character, _ in line).rstrip() for line in self.lines)


def run(command, folder, environment, screen):
    """Runs a command on a terminal, and ends if it fails."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    output = b""
    while True:
        ready, _, _ = select.select([main], [], [], 60)
        try:
            read = os.read(main, 65536) if ready else b""
        except OSError:
            read = b""
        if not read:
            break
        output += read
    code = process.wait()
    text = output.decode().replace("\r\n", "\n")
    screen.feed(text)
    if code not in (0, 8):
        sys.exit(f"{command}: exit code {code}\n{text}")


def server(folder, environment):
    accounts = ";".join(f"{name}:{KEY}" for name in ("shop", "staging"))
    process = subprocess.Popen(
        ["rowkey-server", "--blobPort", "0", "--queuePort", "0", "--tablePort", "0"],
        env=environment | {"AZURITE_ACCOUNTS": accounts}, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    ready = json.loads(process.stdout.readline())
    strings = {}
    for name in ("shop", "staging"):
        places = "".join(f"{service.title()}Endpoint={re.sub('/[^/]*$', '', ready[service])}/{name};" for service in ("table", "queue", "blob"))
        strings[name] = f"DefaultEndpointsProtocol=http;AccountName={name};AccountKey={KEY};{places}"
    return process, strings


def airports():
    """The airports as JSON lines."""
    lines = []
    with open(ROOT / "examples/data/airports.csv", newline="") as file:
        for row in csv.DictReader(file):
            place = {"Latitude": float(row["latitude"]), "Longitude": float(row["longitude"])}
            entity = {"PartitionKey": row["state"] or row["country"], "RowKey": row["iata"], "Name": row["name"], "City": row["city"]}
            lines.append(json.dumps(entity | {name: {"Edm.Double": str(value)} for name, value in place.items()}))
    return "\n".join(lines) + "\n"


def record(commands):
    """Runs the commands, and returns the screen."""
    programs = os.environ.get("ROWKEY_PROGRAMS", str(ROOT / "target/debug"))
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": f"{programs}:/usr/bin:/bin", "HOME": folder, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LANG": "C.UTF-8",
        }
        work = pathlib.Path(folder) / "work"
        work.mkdir()
        process, strings = server(folder, environment)
        try:
            environment["ROWKEY_CONNECTION_STRING"] = strings["shop"]
            add = ["rowkey", "profile", "add", "staging"]
            subprocess.run(add, input=strings["staging"], text=True, env=environment, check=True, capture_output=True)
            load = ["rowkey", "import", "airports", "-"]
            subprocess.run(load, input=airports(), text=True, env=environment, check=True, capture_output=True)
            screen = Screen()
            for command in commands:
                shown = Screen() if command.startswith("#") else screen
                if shown is screen:
                    screen.style = "prompt"
                    screen.feed("$ ")
                    screen.style = "bold"
                    screen.feed(command[2:] + "\n")
                    screen.style = ""
                run(command[2:], work, environment, shown)
        finally:
            process.terminate()
            process.wait()
    if KEY in screen.text():
        sys.exit("the recording shows the key of the account")
    return screen


def drawn(screen, commands):
    """The screen as SVG."""
    width, height, margin = 8.4, 19, 16
    lines = screen.lines
    while lines and not lines[-1]:
        lines.pop()
    columns = max(len(line) for line in lines)
    rows = []
    for number, line in enumerate(lines):
        spans, at = [], 0
        while at < len(line):
            end = at
            while end < len(line) and line[end][1] == line[at][1]:
                end += 1
            text = html.escape("".join(character for character, _ in line[at:end]), quote=False)
            style = line[at][1]
            kind = {"": "", "bold": ' font-weight="bold"', "prompt": ' fill="#777"'}.get(style, f' fill="{style}"')
            spans.append(f"<tspan{kind}>{text}</tspan>")
            at = end
        y = margin + height * (number + 1) - 5
        rows.append(f'<text x="{margin}" y="{y}" xml:space="preserve">{"".join(spans)}</text>')
    size = (round(columns * width + 2 * margin), height * len(lines) + 2 * margin)
    description = html.escape("\n".join(commands), quote=False)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img">\n'
        f"<desc>{description}</desc>\n"
        f'<rect width="100%" height="100%" rx="6" fill="#f7f7f5" stroke="#ccc"/>\n'
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#222">\n'
        + "\n".join(rows)
        + "\n</g>\n</svg>\n"
    )


def main():
    check = "--check" in sys.argv[1:]
    if not check and shutil.which("bash") is None:
        sys.exit("bash is missing")
    wrong = []
    for page in sorted(PAGES.glob("*.md")):
        for name, block in BLOCK.findall(page.read_text()):
            commands = block.strip("\n").split("\n")
            path = PAGES / f"{name}.svg"
            if not check:
                path.write_text(drawn(record(commands), commands))
                print(path.relative_to(ROOT))
                continue
            recorded = re.search(r"<desc>(.*?)</desc>", path.read_text(), re.S) if path.exists() else None
            if recorded is None or html.unescape(recorded[1]).split("\n") != commands:
                wrong.append(f"{page.relative_to(ROOT)}: {name}.svg is not a recording of these commands; run docs/terminals.py")
            if f"]({name}.svg)" not in page.read_text():
                wrong.append(f"{page.relative_to(ROOT)}: {name}.svg is not shown")
    if wrong:
        sys.exit("\n".join(wrong))


main()
