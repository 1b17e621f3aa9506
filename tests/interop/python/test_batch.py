"""Transactions: every operation, all or nothing, and which operation failed."""

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import RequestTooLargeError, TableClient, TableTransactionError, UpdateMode

from conftest import code_of, entity, own

IF_NOT_MODIFIED = MatchConditions.IfNotModified


def stored(table):
    return {one["RowKey"]: own(one) for one in table.list_entities()}


def test_every_kind_of_operation_in_one_transaction(table):
    etags = {row: table.create_entity(entity(row, a=1, b=1))["etag"] for row in "123456"}
    done = table.submit_transaction(
        [
            ("create", entity("new", a="ü")),
            ("upsert", entity("up-merge", a=1)),
            ("upsert", entity("1", b=2), {"mode": UpdateMode.MERGE}),
            ("upsert", entity("2", b=2), {"mode": UpdateMode.REPLACE}),
            ("update", entity("3", b=2), {"mode": UpdateMode.MERGE}),
            ("update", entity("4", b=2), {"mode": "replace", "etag": etags["4"], "match_condition": IF_NOT_MODIFIED}),
            ("delete", entity("5")),
            ("delete", entity("6"), {"etag": etags["6"], "match_condition": IF_NOT_MODIFIED}),
        ]
    )
    assert stored(table) == {
        "1": {"a": 1, "b": 2},
        "2": {"b": 2},
        "3": {"a": 1, "b": 2},
        "4": {"b": 2},
        "new": {"a": "ü"},
        "up-merge": {"a": 1},
    }
    assert len(done) == 8
    assert done[0]["etag"] == table.get_entity("p", "new").metadata["etag"]
    assert done[5]["etag"] == table.get_entity("p", "4").metadata["etag"] != etags["4"]
    assert "etag" not in done[6] and "etag" not in done[7]


def test_a_hundred_operations_are_one_transaction(table):
    done = table.submit_transaction([("create", entity(f"{number:03}", n=number)) for number in range(100)])
    assert len(done) == 100
    assert [one["n"] for one in table.list_entities()] == list(range(100))


def test_the_hundred_and_first_operation_is_refused(table):
    with pytest.raises(TableTransactionError) as caught:
        table.submit_transaction([("create", entity(f"{number:03}")) for number in range(101)])
    assert caught.value.error_code == "InvalidInput"
    assert caught.value.index == 99
    assert stored(table) == {}


@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_failure_names_its_operation_and_nothing_is_applied(table, place):
    table.create_entity(entity("there", a=1))
    operations = [("upsert", entity(str(number))) for number in range(4)]
    operations.insert(place, ("create", entity("there", a=2)))
    with pytest.raises(TableTransactionError) as caught:
        table.submit_transaction(operations)
    assert caught.value.status_code == 409
    assert caught.value.error_code == "EntityAlreadyExists"
    assert caught.value.index == place
    assert f"{place}:The specified entity already exists." in caught.value.message
    assert stored(table) == {"there": {"a": 1}}


@pytest.mark.parametrize("kind", ["update", "delete"])
def test_a_stale_etag_fails_the_transaction(table, kind):
    stale = table.create_entity(entity("a", n=1))["etag"]
    table.update_entity(entity("a", n=2))
    with pytest.raises(TableTransactionError) as caught:
        table.submit_transaction(
            [
                ("create", entity("b")),
                (kind, entity("a", n=3), {"etag": stale, "match_condition": IF_NOT_MODIFIED}),
            ]
        )
    assert (caught.value.status_code, caught.value.index) == (412, 1)
    assert caught.value.error_code == "UpdateConditionNotSatisfied"
    assert stored(table) == {"a": {"n": 2}}


@pytest.mark.parametrize("kind", ["update", "delete"])
def test_an_absent_entity_fails_the_transaction(table, kind):
    with pytest.raises(TableTransactionError) as caught:
        table.submit_transaction([("create", entity("a")), (kind, entity("absent"))])
    assert (caught.value.status_code, caught.value.index) == (404, 1)
    assert caught.value.error_code == "ResourceNotFound"
    assert stored(table) == {}


def test_a_failure_of_a_single_operation_has_index_zero_and_no_prefix(table):
    table.create_entity(entity())
    with pytest.raises(TableTransactionError) as caught:
        table.submit_transaction([("create", entity())])
    assert caught.value.index == 0
    assert caught.value.message.startswith("The specified entity already exists.")


def test_a_row_appears_once_in_a_transaction(table):
    with pytest.raises(TableTransactionError) as caught:
        table.submit_transaction([("upsert", entity("a")), ("upsert", entity("b")), ("upsert", entity("a"))])
    assert caught.value.error_code == "InvalidDuplicateRow"
    assert caught.value.index == 2
    assert stored(table) == {}


def test_a_transaction_on_a_missing_table_says_so(service, table_name):
    missing = service.get_table_client(table_name)
    with pytest.raises(TableTransactionError) as caught:
        missing.submit_transaction([("create", entity("a")), ("create", entity("b"))])
    assert caught.value.status_code == 404
    assert caught.value.error_code == "TableNotFound"
    assert caught.value.index == 0


def test_a_transaction_over_four_mebibytes_is_refused_as_too_large(table):
    # 79 entities of 54 KiB; the limit is on the request as it is sent.
    big = "x" * 27_000
    with pytest.raises(RequestTooLargeError) as caught:
        table.submit_transaction([("create", entity(f"{number:03}", a=big, b=big)) for number in range(79)])
    assert caught.value.error_code == "RequestBodyTooLarge"
    assert stored(table) == {}


def test_an_entity_over_a_mebibyte_fails_its_operation(table):
    large = {f"p{number}": b"\0" * 65_536 for number in range(17)}
    with pytest.raises(TableTransactionError) as caught:
        table.submit_transaction([("create", entity("a")), ("create", entity("b", **large))])
    assert caught.value.status_code == 400
    assert caught.value.error_code == "EntityTooLarge"
    assert caught.value.index == 1
    assert stored(table) == {}


def test_an_empty_transaction_does_nothing(table):
    assert table.submit_transaction([]) == []


def test_keys_and_values_survive_a_transaction(table):
    rows = ["it's", "100% a+b", "世界", "\U0001f600", ""]
    text = "--batch_x\r\nContent-Type: {application/http}\r\n\r\nHTTP/1.1 204\r\n"
    table.submit_transaction([("create", entity(row, "p'q ü", text=text)) for row in rows])
    for row in rows:
        assert table.get_entity("p'q ü", row)["text"] == text


def test_a_transaction_is_refused_with_a_wrong_key(account, table):
    wrong = AzureNamedKeyCredential(account.name, "d3Jvbmc=")
    with TableClient(account.endpoint, table.table_name, credential=wrong) as client:
        with pytest.raises(HttpResponseError) as caught:
            client.submit_transaction([("create", entity())])
    assert caught.value.status_code == 403
    assert code_of(caught.value) == "AuthenticationFailed"
    with pytest.raises(ResourceNotFoundError):
        table.get_entity("p", "r")
