"""What the Rust crate encrypted in format 2 is read by another implementation, and by it alone as it was."""

import copy
import json
import pathlib

import pytest
from rowkey_encryption import Refused, branch_key, open_entity

ROOT = pathlib.Path(__file__).parents[3]
FILE = json.loads((ROOT / "crates/rowkey-encryption/vectors/format-2.json").read_text())
KEYS = {name: bytes.fromhex(key) for name, key in FILE["wrapping_keys"].items()}
SIGNERS = {name: bytes.fromhex(key) for name, key in FILE["signing_keys"].items()}
VECTORS = pytest.mark.parametrize("vector", FILE["vectors"], ids=lambda vector: vector["name"])


def entity(row):
    properties = {name: (value["type"], value["value"]) for name, value in row["properties"].items()}
    return {**row, "properties": properties}


def opened(vector, record, stored):
    branch, key = branch_key(record, vector["table"], KEYS, SIGNERS)
    return open_entity(stored, vector["table"], branch, key)


@VECTORS
def test_what_rust_wrote_is_read(vector):
    read = opened(vector, entity(vector["record"]), entity(vector["stored"]))
    assert read == entity(vector["opened"])["properties"]


@VECTORS
def test_nothing_of_it_can_be_altered(vector):
    record, stored = entity(vector["record"]), entity(vector["stored"])
    listed = stored["properties"]["_RowkeyEncryption"][1].split(" ")[4].split(",")
    sealed = [name for name in listed if name != "-"]
    for which, names in [(record, list(record["properties"])), (stored, [*sealed, "_RowkeyEncryption"])]:
        for name in names:
            kind, text = which["properties"][name]
            for at in range(len(text)):
                altered = copy.deepcopy(which)
                other = "A" if text[at] != "A" else "B"
                altered["properties"][name] = (kind, text[:at] + other + text[at + 1 :])
                pair = (altered, stored) if which is record else (record, altered)
                with pytest.raises(Refused):
                    opened(vector, *pair)


def test_another_table_and_another_place_are_refused():
    vector = FILE["vectors"][0]
    record, stored = entity(vector["record"]), entity(vector["stored"])
    with pytest.raises(Refused):
        opened({**vector, "table": "others"}, record, stored)
    with pytest.raises(Refused):
        opened(vector, record, {**stored, "RowKey": "000008"})
