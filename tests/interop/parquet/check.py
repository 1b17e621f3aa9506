"""Parquet of rowkey-transfer in pyarrow and polars, and theirs in rowkey-transfer.

The program of the example `convert`, named by CONVERT, changes formats. With a folder as its argument it writes the files of
`crates/rowkey-transfer/tests/files` there.
"""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import uuid

import polars
import pyarrow
import pyarrow.parquet

UTC = datetime.timezone.utc
FOLDER = pathlib.Path(tempfile.mkdtemp())


def convert(source, target):
    subprocess.run([os.environ["CONVERT"], source, target], check=True, stdout=subprocess.DEVNULL)


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def rows_of_all_types(count):
    """Rows with each type, in which one property has two types and dates reach the year 9999."""
    rows = []
    for number in range(count):
        row = {"PartitionKey": "p" * (number % 2), "RowKey": f"{number:05}"}
        row["Timestamp"] = "2026-11-20T12:34:56.7654321Z"
        row["Binary"] = {"Edm.Binary": "AP8="}
        row["Boolean"] = number % 2 == 0
        row["Created"] = {"Edm.DateTime": "2026-11-20T12:34:56.7654321Z"}
        row["Double"] = {"Edm.Double": ["0.5", "-0.0", "NaN", "Infinity"][number % 4]}
        row["Guid"] = {"Edm.Guid": "c9da6455-213d-42c9-9a79-3e9149a57833"}
        row["Int32"] = -(2**31)
        row["Int64"] = {"Edm.Int64": str(2**63 - 1)}
        row["Text"] = "" if number % 3 == 0 else "é\n😀"
        row["Until"] = {"Edm.DateTime": "9999-12-31T23:59:59.9999999Z"}
        row["Mixed"] = number if number % 2 == 0 else str(number)
        if number % 5 == 0:
            row["Rare"] = True
        rows.append(row)
    return rows


def test_ours_is_read():
    rows = rows_of_all_types(1_000)
    write_lines(FOLDER / "ours.jsonl", rows)
    convert(FOLDER / "ours.jsonl", FOLDER / "ours.parquet")

    table = pyarrow.parquet.read_table(FOLDER / "ours.parquet")
    assert table.num_rows == 1_000
    # Python's own dates have microseconds.
    first = table.drop_columns(["Created", "Timestamp"]).slice(0, 1).to_pylist()[0]
    assert first["PartitionKey"] == "" and first["RowKey"] == "00000"
    assert table.schema.field("Created").type == pyarrow.timestamp("ns", tz="UTC"), table.schema
    assert table.schema.field("Until").type == pyarrow.timestamp("us", tz="UTC")
    assert table.column("Created").cast(pyarrow.int64())[0].as_py() % 10**9 == 765_432_100
    assert first["Until"] == datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    assert first["Until@ticks"] == 9
    assert first["Binary"] == b"\x00\xff" and first["Boolean"] is True
    guid = first["Guid"]
    assert (guid if isinstance(guid, uuid.UUID) else uuid.UUID(bytes=guid)).hex.startswith("c9da6455")
    assert first["Int32"] == -(2**31) and first["Int64"] == 2**63 - 1
    assert first["Mixed@Int32"] == 0 and first["Mixed@String"] is None
    assert table.column("Mixed@String").null_count == 500
    assert table.column("Rare").null_count == 800

    frame = polars.read_parquet(FOLDER / "ours.parquet")
    assert frame.height == 1_000
    assert frame["Created"].dtype == polars.Datetime("ns", "UTC"), frame.schema
    assert frame["Until"].dtype == polars.Datetime("us", "UTC")
    assert frame["Int64"].max() == 2**63 - 1
    assert frame["Double"].is_nan().sum() == 250
    assert frame["Text"].n_unique() == 2


def test_ours_comes_back_through_others():
    """The names of the columns say the same as the metadata, which polars drops."""
    rows = rows_of_all_types(200)
    write_lines(FOLDER / "through.jsonl", rows)
    convert(FOLDER / "through.jsonl", FOLDER / "through.parquet")
    convert(FOLDER / "through.parquet", FOLDER / "back.jsonl")
    assert lines(FOLDER / "back.jsonl") == rows

    table = pyarrow.parquet.read_table(FOLDER / "through.parquet")
    pyarrow.parquet.write_table(table, FOLDER / "pyarrow.parquet", row_group_size=70)
    assert pyarrow.parquet.ParquetFile(FOLDER / "pyarrow.parquet").num_row_groups == 3
    convert(FOLDER / "pyarrow.parquet", FOLDER / "pyarrow.jsonl")
    assert lines(FOLDER / "pyarrow.jsonl") == rows

    # polars has no type for GUIDs.
    frame = polars.read_parquet(FOLDER / "through.parquet")
    frame.write_parquet(FOLDER / "polars.parquet", row_group_size=70)
    convert(FOLDER / "polars.parquet", FOLDER / "polars.jsonl")
    without = [{name: value for name, value in row.items() if name != "Guid"} for row in rows]
    read = lines(FOLDER / "polars.jsonl")
    assert [{name: value for name, value in row.items() if name != "Guid"} for row in read] == without


def test_theirs_is_read(folder=None):
    """Files as other programs make them, with several row groups and encodings. With a folder they stay there."""
    folder = folder or FOLDER
    when = datetime.datetime(2020, 6, 22, 15, 16, 5, 333_000, UTC)
    columns = {
        "PartitionKey": pyarrow.array(["p"] * 10).dictionary_encode(),
        "RowKey": [str(number) for number in range(10)],
        "small": pyarrow.array(range(10), pyarrow.int8()),
        "unsigned": pyarrow.array([2**32 - 1] * 10, pyarrow.uint32()),
        "large": pyarrow.array([2**63 - 1] * 10, pyarrow.uint64()),
        "single": pyarrow.array([0.5] * 10, pyarrow.float32()),
        "day": pyarrow.array([datetime.date(2020, 6, 22)] * 10),
        "milli": pyarrow.array([when] * 10, pyarrow.timestamp("ms", tz="UTC")),
        "local": pyarrow.array([when.replace(tzinfo=None)] * 10, pyarrow.timestamp("us")),
        "text": pyarrow.array(["a", None] * 5, pyarrow.large_string()),
        "bytes": pyarrow.array([b"\x00"] * 10, pyarrow.large_binary()),
        "fixed": pyarrow.array([b"abc"] * 10, pyarrow.binary(3)),
    }
    table = pyarrow.table(columns)
    expected = {
        "PartitionKey": "p",
        "RowKey": "3",
        "small": 3,
        "unsigned": {"Edm.Int64": str(2**32 - 1)},
        "large": {"Edm.Int64": str(2**63 - 1)},
        "single": {"Edm.Double": "0.5"},
        "day": {"Edm.DateTime": "2020-06-22T00:00:00Z"},
        "milli": {"Edm.DateTime": "2020-06-22T15:16:05.333Z"},
        "local": {"Edm.DateTime": "2020-06-22T15:16:05.333Z"},
        "bytes": {"Edm.Binary": "AA=="},
        "fixed": {"Edm.Binary": "YWJj"},
    }
    for name, options in [
        ("snappy", {"compression": "snappy"}),
        ("zstd", {"compression": "zstd", "data_page_version": "2.0"}),
        ("none", {"compression": "none", "use_dictionary": False, "version": "1.0"}),
        ("legacy", {"use_deprecated_int96_timestamps": True}),
    ]:
        path = folder / f"pyarrow-{name}.parquet"
        pyarrow.parquet.write_table(table, path, row_group_size=4, **options)
        convert(path, FOLDER / "theirs.jsonl")
        read = lines(FOLDER / "theirs.jsonl")
        assert len(read) == 10
        assert read[3] == expected, (name, read[3])
        assert read[2]["text"] == "a"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        # Makes the files that the tests of the library read.
        test_theirs_is_read(pathlib.Path(sys.argv[1]))
        sys.exit()
    for test in [test_ours_is_read, test_ours_comes_back_through_others, test_theirs_is_read]:
        test()
        print(f"{test.__name__}: passed")
