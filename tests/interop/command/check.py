#!/usr/bin/env python3
"""The command `rowkey` against a server: airports, temperatures and stocks through every format, and through a copy of a copy.

    ROWKEY=target/debug/rowkey ROWKEY_CONNECTION_STRING='…' tests/interop/command/check.py

Reads back what it wrote by the command itself and compares it with what it wrote first, type for type. Tables have names of their own,
and are dropped at the end.
"""

import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "examples/data"
PROGRAM = os.environ.get("ROWKEY", str(ROOT / "target/debug/rowkey"))
FOLDER = pathlib.Path(tempfile.mkdtemp())
IS_AZURITE = os.environ.get("ROWKEY_ARM") == "azurite"
# Each place that an export writes to and an import reads from.
PLACES = ["a.jsonl", "a.jsonl.gz", "a.csv", "a.json", "a.parquet", "folder"]
FORMATS = ["json-lines", "csv", "json", "azcopy", "parquet"]


def rowkey(*arguments, text=None):
    done = subprocess.run([PROGRAM, *arguments], input=text, cwd=FOLDER, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"rowkey {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


def rows(name):
    """The rows of a file, as entities of typed JSON."""
    with open(DATA / f"{name}.csv", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            if name == "airports":
                keys = (row["state"], row["iata"])
                place = {column: {"Edm.Double": str(float(row[column]))} for column in ("latitude", "longitude")}
                properties = {"Name": row["name"], "City": row["city"]} | place
            elif name == "stocks":
                keys = (row["symbol"], f"{number:05}")
                properties = {"Date": row["date"], "Price": {"Edm.Double": str(float(row["price"]))}, "Number": {"Edm.Int64": str(number << 33)}}
            else:
                date, time = row["date"].split(" ")
                when = f"{date.replace('/', '-')}T{time}:00Z"
                keys = (date[:7].replace("/", "-"), f"{number:05}")
                properties = {"At": {"Edm.DateTime": when}, "Degrees": {"Edm.Double": str(float(row["temp"]))}, "IsCold": float(row["temp"]) < 41}
            yield {"PartitionKey": keys[0], "RowKey": keys[1]} | properties


def stored(text):
    """The entities of JSON lines by their keys, without the Timestamp."""
    found = {}
    for line in text.decode().splitlines():
        entity = json.loads(line)
        entity.pop("Timestamp", None)
        key = (entity["PartitionKey"], entity["RowKey"])
        if key in found:
            sys.exit(f"an entity is there twice: {key}")
        found[key] = entity
    return found


def read(table):
    return stored(rowkey("export", table, "-"))


def plain(entity):
    """The entity, with numbers and times that can be compared however they are spelled."""

    def value(value):
        # Azurite returns 39.0 as an Int32.
        if IS_AZURITE and isinstance(value, int) and not isinstance(value, bool):
            return "Edm.Double", float(value)
        if not isinstance(value, dict):
            return value
        (edm, text), = value.items()
        return edm, float(text) if edm == "Edm.Double" else text.rstrip("Z0").rstrip(".") if edm == "Edm.DateTime" else text

    return {name: value(member) for name, member in entity.items()}


def check(name):
    tables = []

    def table(suffix):
        tables.append(f"{name.replace('-', '')}{suffix}")
        return tables[-1]

    entities = list(rows(name))
    first = table("0")
    rowkey("import", first, "-", text="".join(json.dumps(entity) + "\n" for entity in entities).encode())
    expected = read(first)
    if len(expected) != len(entities):
        sys.exit(f"{name}: {len(expected)} of {len(entities)} entities")
    for entity in entities:
        found = expected[entity["PartitionKey"], entity["RowKey"]]
        if plain(found) != plain(entity):
            sys.exit(f"{name}: {entity} came back as {found}")
    for place in PLACES:
        rowkey("export", first, place)
        again = table("x" + "".join(letter for letter in place if letter.isalnum()))
        rowkey("import", again, place)
        if read(again) != expected:
            sys.exit(f"{name}: {place} came back otherwise")
        path = FOLDER / place
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for format in FORMATS:
        again = table("y" + format.replace("-", ""))
        rowkey("import", again, "-", "--format", format, text=rowkey("export", first, "-", "--format", format))
        if read(again) != expected:
            sys.exit(f"{name}: {format} came back otherwise")
    rowkey("export", first, f"interop/{name}", "--container")
    rowkey("import", table("blobs"), f"interop/{name}", "--container")
    copy, of_copy = table("copy"), table("copies")
    rowkey("copy", first, copy)
    rowkey("copy", copy, of_copy)
    for again in (tables[-3], of_copy):
        if read(again) != expected:
            sys.exit(f"{name}: {again} differs")
    count = json.loads(rowkey("count", of_copy, "--json"))["entities"]
    if count != len(entities):
        sys.exit(f"{name}: {count} are counted")
    for one in tables:
        rowkey("tables", "drop", one, "--yes")
    print(f"{name}: {len(entities)} entities through {len(PLACES) + len(FORMATS) + 1} forms and a copy of a copy")


for data in ("airports", "seattle-temps", "stocks"):
    check(data)
shutil.rmtree(FOLDER)
