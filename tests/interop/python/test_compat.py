"""What rowkey wrote for Python programs is read with Python's types, found by its filters and changed, and what
rowkey wrote for other libraries has the types that they store."""

import os
import subprocess
from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest
from azure.data.tables import EdmType, EntityProperty, UpdateMode

KIND = "it's 50% größe"
AT = datetime(2026, 11, 20, 9, 0, 0, 123000, tzinfo=timezone.utc)


def compat(command, profile, table_name):
    """The Rust program `tests/interop/rust/src/bin/compat.rs`."""
    program = os.environ.get("ROWKEY_COMPAT")
    if not program:
        pytest.exit("ROWKEY_COMPAT is not set; use tests/interop/run python", returncode=2)
    subprocess.run([program, command, profile, table_name], check=True)


@pytest.fixture
def written(service, table_name):
    """A table that rowkey fills with the rows of a profile."""

    def write(profile):
        compat("write", profile, table_name)
        return service.get_table_client(table_name)

    yield write
    service.delete_table(table_name)


def long(value):
    return EntityProperty(value, EdmType.INT64)


def row(number):
    """As the types of a Python program: the row that rowkey was told to write."""
    at = number - 1
    row = {
        "PartitionKey": KIND,
        "RowKey": f"{number:08}",
        "count": [-(2**31), 0, 7, 2**31 - 2][at],
        "small": [-1, 0, 1, 100][at],
        "size": [0, 7, 2**31 - 2, 5][at],
        "ratio": [0.5, 3.0, -2.5, 1e21][at],
        "flag": number % 2 == 0,
        "text": ["größe 日本 🏓 \"quoted\" o'brien \\ \n\t", "", "plain", "42"][at],
        "level": "high" if number == 2 else "low",
        "at": AT + timedelta(days=number),
        "id": UUID(f"0d391d16-97f1-4b9a-be68-4cc871f9000{number}"),
        "data": bytes([0, 1, 254, 255][:at]),
        "big": long([2**53, -(2**53), 1, 2**31][at]),
    }
    return row | ({"note": "there"} if number % 2 == 0 else {})


def updated(row):
    """What a program changes: each property becomes another one of the same type."""
    number = int(row["RowKey"])
    return row | {
        "count": row["count"] + 1,
        "small": row["small"] + 1,
        "size": row["size"] + 1,
        "ratio": row["ratio"] + 0.25,
        "flag": not row["flag"],
        "text": row["text"] + "!",
        "level": "low" if row["level"] == "high" else "high",
        "at": row["at"] + timedelta(days=30),
        "id": UUID(f"c9da6455-213d-42c9-9a79-3e9149a5783{number}"),
        "data": row["data"] + b"\x07",
        "big": long(-row["big"].value),
        "note": "written",
    }


def types(row):
    return {name: (type(value), getattr(value, "edm_type", None)) for name, value in row.items()}


def test_rows_of_the_profile_have_pythons_types_and_values(written):
    rows = list(written("python").list_entities())
    expected = [row(number) for number in range(1, 5)]
    assert [dict(read) for read in rows] == expected
    for read, meant in zip(rows, expected):
        assert isinstance(read["at"], datetime) and read["at"].tzinfo is not None
        assert types(read) | {"at": None} == types(meant) | {"at": None}


@pytest.mark.parametrize(
    ("query", "parameters", "numbers"),
    [
        ("count ge @n", {"n": 0}, [2, 3, 4]),
        ("count eq @n", {"n": -(2**31)}, [1]),
        ("size gt @n and small lt @m", {"n": 5, "m": 100}, [2, 3]),
        ("ratio gt @n", {"n": 0.4}, [1, 2, 4]),
        ("flag eq @yes", {"yes": True}, [2, 4]),
        ("level eq @level", {"level": "high"}, [2]),
        ("text eq @text", {"text": "größe 日本 🏓 \"quoted\" o'brien \\ \n\t"}, [1]),
        ("at ge @at", {"at": AT + timedelta(days=3)}, [3, 4]),
        ("at eq @at", {"at": AT + timedelta(days=2)}, [2]),
        ("id eq @id", {"id": UUID("0D391D16-97F1-4B9A-BE68-4CC871F90003")}, [3]),
        ("data eq @data", {"data": b"\x00\x01"}, [3]),
        ("big ge @big", {"big": 2**53}, [1]),
        ("big lt 0L", {}, [2]),
        ("note eq @note", {"note": "there"}, [2, 4]),
        ("PartitionKey eq @kind and RowKey gt @row", {"kind": KIND, "row": "00000002"}, [3, 4]),
    ],
)
def test_rows_of_the_profile_are_found_as_python_programs_filter(written, query, parameters, numbers):
    rows = written("python").query_entities(query, parameters=parameters)
    assert [int(row["RowKey"]) for row in rows] == numbers


@pytest.mark.parametrize("mode", [UpdateMode.MERGE, UpdateMode.REPLACE])
def test_what_python_makes_of_them_is_read_by_rowkey(written, table_name, mode):
    table = written("python")
    for read in list(table.list_entities()):
        table.update_entity(updated(read), mode=mode)
    compat("check", "python", table_name)


def test_rowkey_sees_what_python_did_not_update(written, table_name):
    table = written("python")
    for read in list(table.list_entities())[1:]:
        table.update_entity(updated(read))
    with pytest.raises(subprocess.CalledProcessError):
        compat("check", "python", table_name)


INT32, INT64, DOUBLE, TEXT = (int, None), (EntityProperty, EdmType.INT64), (float, None), (str, None)


@pytest.mark.parametrize(
    ("profile", "count", "size", "big", "at", "id"),
    [
        ("azure_data_tables-0.21", INT32, INT32, DOUBLE, str, str),
        ("python", INT32, INT32, INT64, datetime, UUID),
        ("javascript", INT32, INT32, INT64, datetime, UUID),
        ("dotnet", INT64, INT64, INT64, datetime, UUID),
    ],
)
def test_each_profile_stores_the_types_of_its_library(written, profile, count, size, big, at, id):
    for read in written(profile).list_entities():
        assert isinstance(read["at"], at)
        expected = {
            "PartitionKey": TEXT,
            "RowKey": TEXT,
            "count": count,
            "small": INT32,
            "size": size,
            "ratio": DOUBLE,
            "flag": (bool, None),
            "text": TEXT,
            "level": TEXT,
            "at": (type(read["at"]), None),
            "id": (id, None),
            "data": (bytes, None),
            "big": big,
        }
        assert types(read) == expected | ({"note": TEXT} if "note" in read else {})
