"""delta-rs (`deltalake`): a table's whole life, with the conditional puts and bulk deletes of object_store beneath."""

import pyarrow
from checks import ACCOUNT, BLOB, KEY, check, container, main
from deltalake import DeltaTable, write_deltalake

OPTIONS = {
    "azure_storage_account_name": ACCOUNT,
    "azure_storage_account_key": KEY,
    "azure_endpoint": BLOB,
    "azure_storage_use_emulator": "true" if BLOB.endswith(f"127.0.0.1:10000/{ACCOUNT}") else "false",
    "azure_allow_http": "true",
}
WHERE = "az://delta/things"


def rows(first, last):
    ids = list(range(first, last))
    return pyarrow.table({"id": ids, "text": [f"row {it}" for it in ids]})


def table():
    return DeltaTable(WHERE, storage_options=OPTIONS)


def ids():
    return sorted(pyarrow.table(table().to_pyarrow_table())["id"].to_pylist())


@check
def write():
    container("delta")
    write_deltalake(WHERE, rows(0, 100), storage_options=OPTIONS)
    assert ids() == list(range(100))


@check
def append():
    for start in range(100, 400, 100):
        write_deltalake(WHERE, rows(start, start + 100), mode="append", storage_options=OPTIONS)
    assert ids() == list(range(400))


@check
def delete_rows():
    table().delete("id >= 300")
    assert ids() == list(range(300))


@check
def update_rows():
    table().update(updates={"text": "'changed'"}, predicate="id = 7")
    assert table().to_pyarrow_table(filters=[("id", "=", 7)])["text"].to_pylist() == ["changed"]


@check
def merge():
    source = rows(290, 310)
    merged = table().merge(source, predicate="t.id = s.id", source_alias="s", target_alias="t")
    merged.when_matched_update_all().when_not_matched_insert_all().execute()
    assert ids() == list(range(310))


@check
def read_older_version():
    assert len(DeltaTable(WHERE, version=0, storage_options=OPTIONS).to_pyarrow_table()) == 100


@check
def optimize():
    table().optimize.compact()
    assert ids() == list(range(310))


@check
def checkpoint():
    table().create_checkpoint()
    assert ids() == list(range(310))


@check
def overwrite():
    write_deltalake(WHERE, rows(0, 10), mode="overwrite", storage_options=OPTIONS)
    assert ids() == list(range(10))


@check
def vacuum():
    removed = table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert len(removed) > 1, removed
    assert ids() == list(range(10))


@check
def clean_up_metadata():
    table().cleanup_metadata()
    assert ids() == list(range(10))


main()
