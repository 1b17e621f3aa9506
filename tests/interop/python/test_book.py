"""The migration page shows programs on azure-data-tables: its program runs, and makes each call of its table."""

import pathlib
import re

PAGE = pathlib.Path(__file__).parents[3] / "docs/src/migrate/others.md"


def section():
    return PAGE.read_text().split("\n## Python\n")[1].split("\n## ")[0]


def program():
    [block] = re.findall(r"^```python\n(.*?)^```$", section(), re.DOTALL | re.MULTILINE)
    return block


def test_the_program_of_the_page_runs(table):
    names = {"table": table}
    exec(compile(program(), PAGE.name, "exec"), names)
    assert (names["changed_meanwhile"], names["missing"], names["found"]) == (True, True, ["1"])
    assert names["left"] == [("1", 2, "Level.HIGH"), ("3", 3, "Level.LOW")]


def test_the_program_makes_every_call_of_the_table():
    rows = [row.split("|")[1] for row in section().splitlines() if row.startswith("| `")]
    assert len(rows) >= 7
    for row in rows:
        for name in re.findall(r"[A-Za-z_]{3,}", " ".join(re.findall("`([^`]+)`", row))):
            assert re.search(rf"\b{name}\b", program()), f"{name} of {row} is not in the program"
