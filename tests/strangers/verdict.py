#!/usr/bin/env python3
"""Judges what suites of others came to: against `expected/NAME.txt`, which lists the tests that fail and why.

    verdict.py judge --server rowkey --results DIR [--page] [--learn] NAME…
    verdict.py turn FILE…      the files of tests that CI runs this time

A file of expectations has a reason in brackets on a line of its own, and below it the tests that fail for it. A
failure that is not there, and a test there that passes, are faults. `--learn` adds and removes lines instead; new
ones come under `[?]`, which is a fault until it is a reason. A line that begins with `~` may do either: the test
depends on the machine's speed. Tests that did not run are left alone, since CI runs a part.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/src/server/strangers.md"
BEGIN, END = "<!-- written by tests/strangers/run -->\n", "<!-- until here -->\n"
UNKNOWN = "?"
PARTS = 3


def main():
    if sys.argv[1:2] == ["turn"]:
        return turn(sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("judge")
    parser.add_argument("--server", default="rowkey")
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--learn", action="store_true", default=bool(os.environ.get("STRANGERS_LEARN")))
    parser.add_argument("suites", nargs="+")
    options = parser.parse_args()
    faults = []
    for suite in options.suites:
        outcomes = read(options.results, suite)
        count = collections.Counter(outcomes.values())
        print(f"{suite}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
        if not outcomes:
            faults.append(f"{suite} ran no test: see {options.results}/{suite}.log")
        elif options.server == "rowkey":
            faults += compare(suite, outcomes, options.learn)
    if options.page:
        write_page(options)
    for fault in faults:
        print(f"   {fault}")
    sys.exit(1 if faults else 0)


def read(folder, suite):
    """What each test came to: passed, failed or skipped."""
    outcomes = {}
    results, log = folder / f"{suite}.xml", folder / f"{suite}.log"
    if results.exists():
        for case in xml.parse(results).iter("testcase"):
            kinds = {it.tag for it in case}
            outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            holder = case.get("classname", "").removeprefix("tests.")
            name = case.get("name")
            outcomes["::".join(filter(None, [holder, name]))] = outcome
    elif log.exists():  # Of cargo.
        words = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
        for line in log.read_text().splitlines():
            if found := re.fullmatch(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored).*", line):
                outcomes[found[1]] = words[found[2]]
    return outcomes


def expectations(suite):
    """The tests that fail, by reason."""
    reasons = {}
    for line in (HERE / f"expected/{suite}.txt").read_text().splitlines():
        if line.startswith("[") and line.endswith("]") and "::" not in line:
            reasons.setdefault(line[1:-1], set())
            reason = line[1:-1]
        elif line.strip() and not line.startswith("#"):
            reasons[reason].add(line.strip())
    return reasons


def compare(suite, outcomes, learn):
    reasons = expectations(suite)
    expected = set().union(*reasons.values()) if reasons else set()
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    passed = {name for name, outcome in outcomes.items() if outcome == "passed"}
    either = {name.removeprefix("~") for name in expected if name.startswith("~")}
    failed, passed = failed - either, passed - either
    if learn:
        reasons.setdefault(UNKNOWN, set()).update(failed - expected)
        write_expectations(suite, {reason: names - passed for reason, names in reasons.items()})
        return []
    faults = [f"{suite}: {name} fails" for name in sorted(failed - expected)]
    faults += [f"{suite}: {name} passes, and is expected to fail" for name in sorted(passed & expected)]
    if UNKNOWN in reasons:
        faults.append(f"{suite}: failures without a reason in expected/{suite}.txt")
    return faults


def write_expectations(suite, reasons):
    path = HERE / f"expected/{suite}.txt"
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    for reason, names in reasons.items():
        if names:
            head += ["", f"[{reason}]", *sorted(names)]
    path.write_text("\n".join(head) + "\n")


def turn(files):
    """Every file of sync tests, and a part of the async ones, which send the same requests."""
    seed = int(os.environ.get("STRANGERS_SEED") or datetime.date.today().toordinal())
    asynchronous = sorted(it for it in files if it.endswith("_async.py"))
    part = asynchronous[seed % PARTS :: PARTS]
    print(f"async blob tests by STRANGERS_SEED={seed}: {' '.join(part)}", file=sys.stderr)
    print("\n".join([*sorted(set(files) - set(asynchronous)), *part]))


def write_page(options):
    """Puts the counts of the suites that ran, of one server, among those that the page has."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("["):
            rows[cells[0]] = cells[1:]
    kinds = json.loads((HERE / "suites.json").read_text())
    for suite in options.suites:
        outcomes = read(options.results, suite)
        counts = collections.Counter(outcomes.values())
        name, address = kinds[suite]
        cells = rows.setdefault(f"[{name}]({address})", ["", "", ""])
        cells[0] = str(counts["passed"] + counts["failed"])
        cells[2 if options.server == "azurite" else 1] = str(counts["passed"])
    lines = ["| suite | tests | rowkey-server passes | Azurite passes |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + after)


if __name__ == "__main__":
    main()
