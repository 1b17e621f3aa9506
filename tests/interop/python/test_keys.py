"""Keys: whatever the service allows in one works in every operation."""

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import UpdateMode

from conftest import entity

ALLOWED = [
    "",
    " ",
    " leading and trailing ",
    "it's",
    "''doubled''",
    "'",
    "100%",
    "%25",
    "%2F",
    "a+b",
    "a b",
    "a&b=c",
    "a,b;c:d@e$f!g*h~i",
    "(a)[b]{c}<d>|e^f`g",
    '"quoted"',
    "a.b-c_d",
    ".",
    "..",
    "Grüße",
    "世界",
    "\U0001f600",
    "key=value&comp=acl",
    "table@storage.com",
    "k" * 512,
]


@pytest.mark.parametrize("key", ALLOWED, ids=lambda key: repr(key)[:30])
def test_a_key_works_in_every_operation(table, key):
    table.create_entity(entity(key, key, a=1))
    assert dict(table.get_entity(key, key)) == {"PartitionKey": key, "RowKey": key, "a": 1}
    table.update_entity(entity(key, key, b=2), mode=UpdateMode.MERGE)
    table.upsert_entity(entity(key, key, c=3), mode=UpdateMode.MERGE)
    found = table.query_entities(
        "PartitionKey eq @pk and RowKey eq @rk", parameters={"pk": key, "rk": key}
    )
    assert [dict(one) for one in found] == [{"PartitionKey": key, "RowKey": key, "a": 1, "b": 2, "c": 3}]
    table.submit_transaction([("update", entity(key, key, d=4), {"mode": "replace"})])
    assert dict(table.get_entity(key, key)) == {"PartitionKey": key, "RowKey": key, "d": 4}
    table.submit_transaction([("delete", entity(key, key))])
    with pytest.raises(ResourceNotFoundError):
        table.get_entity(key, key)
    table.create_entity(entity(key, key))
    table.delete_entity(key, key)
    with pytest.raises(ResourceNotFoundError):
        table.get_entity(key, key)


@pytest.mark.parametrize("key", ["a/b", "a\\b", "a#b", "a?b", "a\tb", "a\nb", "\x00", "\x1f", "\x7f", "\x9f"])
@pytest.mark.parametrize("which", ["PartitionKey", "RowKey"])
def test_a_forbidden_character_is_refused(table, which, key):
    with pytest.raises(HttpResponseError) as caught:
        table.create_entity({**entity(), which: key})
    assert caught.value.status_code == 400
    assert list(table.list_entities()) == []


@pytest.mark.parametrize("which", ["PartitionKey", "RowKey"])
def test_a_key_over_a_kibibyte_is_refused(table, which):
    with pytest.raises(HttpResponseError) as caught:
        table.create_entity({**entity(), which: "k" * 513})
    assert caught.value.status_code == 400


def test_keys_differ_by_case(table):
    table.create_entity(entity("a", "P", n=1))
    table.create_entity(entity("A", "P", n=2))
    table.create_entity(entity("a", "p", n=3))
    assert [(one["PartitionKey"], one["RowKey"]) for one in table.list_entities()] == [
        ("P", "A"),
        ("P", "a"),
        ("p", "a"),
    ]


def test_keys_sort_as_text_by_code_unit(table):
    rows = ["10", "2", "B", "a", "", "Z", "é", "_", "\uffee", "\U0001f600"]
    for row in rows:
        table.create_entity(entity(row))
    assert [one["RowKey"] for one in table.list_entities()] == sorted(rows, key=lambda row: row.encode("utf-16-be"))


@pytest.mark.parametrize("missing", ["PartitionKey", "RowKey"])
def test_an_entity_without_a_key_is_refused(table, missing):
    incomplete = entity(a=1)
    del incomplete[missing]
    # The SDK turns exactly this answer of the service into a ValueError.
    with pytest.raises(ValueError, match=f"{missing} must be present"):
        table.create_entity(incomplete)
