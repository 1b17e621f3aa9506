"""Queries: filters and their parameters, select, pages and continuation."""

from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import EdmType, TableClient

from conftest import code_of, entity, fill, fresh_name

UTC = timezone.utc


def rows(found):
    return [one["RowKey"] for one in found]


@pytest.fixture(scope="module")
def typed(service):
    """One table with three rows that differ in every property, and one that has none of them."""
    name = fresh_name()
    client = service.create_table(name)
    for number in (1, 2, 3):
        client.create_entity(
            entity(
                str(number),
                text=f"text {number}",
                small=number,
                large=(2**40 + number, EdmType.INT64),
                real=number + 0.5,
                whole=float(number),
                truth=number == 2,
                when=datetime(2024, 1, number, 12, 0, 0, 250000, UTC),
                guid=UUID(int=number),
                binary=bytes([0, number]),
                quote=f"it's {number}",
            )
        )
    client.create_entity(entity("none"))
    yield client
    service.delete_table(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "text 2"),
        ("quote", "it's 2"),
        ("small", 2),
        ("large", 2**40 + 2),
        ("real", 2.5),
        ("whole", 2.0),
        ("when", datetime(2024, 1, 2, 12, 0, 0, 250000, UTC)),
        ("guid", UUID(int=2)),
        ("binary", b"\x00\x02"),
    ],
)
def test_a_parameter_of_each_type_compares_with_each_operator(typed, name, value):
    def found(operator):
        return rows(typed.query_entities(f"{name} {operator} @value", parameters={"value": value}))

    assert found("eq") == ["2"]
    assert found("ne") == ["1", "3"]  # a row without the property is in no comparison
    assert found("gt") == ["3"]
    assert found("ge") == ["2", "3"]
    assert found("lt") == ["1"]
    assert found("le") == ["1", "2"]


def test_a_boolean_parameter(typed):
    assert rows(typed.query_entities("truth eq @value", parameters={"value": True})) == ["2"]
    assert rows(typed.query_entities("truth eq @value", parameters={"value": False})) == ["1", "3"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("small eq 1 or small eq 2 and real gt 100.0", ["1"]),
        ("(small eq 1 or small eq 2) and real gt 2.0", ["2"]),
        ("not (small eq 1)", ["2", "3", "none"]),
        ("not (small eq 1) and small lt 3", ["2"]),
        ("2 eq small", ["2"]),
        ("2 lt small", ["3"]),
        ("large eq 1099511627778L", ["2"]),
        ("real eq 2.5", ["2"]),
        ("guid eq guid'00000000-0000-0000-0000-000000000002'", ["2"]),
        ("binary eq X'0002'", ["2"]),
        ("binary eq binary'0002'", ["2"]),
        ("when ge datetime'2024-01-02T12:00:00.25Z'", ["2", "3"]),
        ("quote eq 'it''s 2'", ["2"]),
        ("text ge 'text 2' and text lt 'text 3'", ["2"]),
        ("PartitionKey eq 'p' and RowKey gt '1' and RowKey le '3'", ["2", "3"]),
        ("PartitionKey eq 'other'", []),
        ("absent eq 'x'", []),
        ("absent ne 'x'", []),
        ("small eq '2'", []),
        ("text eq 2", []),
        ("Small eq 2", []),
    ],
)
def test_a_written_filter_finds(typed, condition, expected):
    assert rows(typed.query_entities(condition)) == expected


def test_a_parameter_is_a_value_and_never_filter_text(typed):
    attack = "x' or RowKey ne 'y"
    assert rows(typed.query_entities("RowKey eq @value", parameters={"value": attack})) == []


def test_the_timestamp_is_filterable(typed):
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    assert len(rows(typed.query_entities("Timestamp gt @t", parameters={"t": now - hour}))) == 4
    assert rows(typed.query_entities("Timestamp gt @t", parameters={"t": now + hour})) == []


def test_select_returns_only_what_it_names_and_null_for_what_is_missing(typed):
    found = list(typed.query_entities("PartitionKey eq 'p'", select=["RowKey", "small"]))
    assert [dict(one) for one in found] == [
        {"RowKey": "1", "small": 1},
        {"RowKey": "2", "small": 2},
        {"RowKey": "3", "small": 3},
        {"RowKey": "none", "small": None},
    ]
    assert all(one.metadata["etag"] for one in found)


def test_select_keeps_the_types(typed):
    [found] = typed.query_entities("RowKey eq '1'", select="large,whole,when,guid,binary")
    assert found["large"].edm_type == EdmType.INT64
    assert type(found["whole"]) is float
    assert found["when"] == datetime(2024, 1, 1, 12, 0, 0, 250000, UTC)
    assert (found["guid"], found["binary"]) == (UUID(int=1), b"\x00\x01")


def test_listing_with_select(typed):
    assert [dict(one) for one in typed.list_entities(select=["RowKey"])][0] == {"RowKey": "1"}


@pytest.mark.parametrize(
    "condition", ["aaa bbb ccc", "RowKey eq", "RowKey eq 'open", "(RowKey eq '1'", "RowKey like '1'", "RowKey eq '1' and"]
)
def test_a_filter_that_does_not_parse_is_invalid_input(typed, condition):
    with pytest.raises(HttpResponseError) as caught:
        list(typed.query_entities(condition))
    assert caught.value.status_code == 400
    assert code_of(caught.value) == "InvalidInput"


def test_a_syntax_error_is_named_with_its_place(typed):
    with pytest.raises(HttpResponseError, match="Syntax error at position 7 in 'aaa bbb ccc'"):
        list(typed.query_entities("aaa bbb ccc"))


def test_a_filter_has_at_most_fifteen_comparisons(typed):
    def asked(count):
        return " or ".join(f"small eq {number}" for number in range(1, count + 1))

    assert rows(typed.query_entities(asked(15))) == ["1", "2", "3"]
    with pytest.raises(HttpResponseError) as caught:
        list(typed.query_entities(asked(16)))
    assert caught.value.status_code == 400


def test_a_query_of_a_missing_table_says_so(service, table_name):
    with pytest.raises(ResourceNotFoundError) as caught:
        list(service.get_table_client(table_name).list_entities())
    assert code_of(caught.value) == "TableNotFound"


@pytest.fixture(scope="module")
def long(service):
    """More rows than a page holds, over two partitions."""
    name = fresh_name()
    client = service.create_table(name)
    fill(client, ((f"{number:04}", {"n": number}) for number in range(800)), partition="a")
    fill(client, ((f"{number:04}", {"n": number}) for number in range(300)), partition="b'\u00fc")
    yield client
    service.delete_table(name)


def test_a_listing_longer_than_a_page_is_complete_and_in_order(long):
    keys = [(one["PartitionKey"], one["RowKey"]) for one in long.list_entities()]
    assert len(keys) == 1100
    assert keys == sorted(keys)


def test_a_page_holds_at_most_a_thousand(long):
    assert [len(list(page)) for page in long.list_entities().by_page()] == [1000, 100]


def test_pages_of_a_chosen_size(long):
    sizes = [len(list(page)) for page in long.list_entities(results_per_page=400).by_page()]
    assert sizes == [400, 400, 300]


def test_a_listing_resumes_from_a_kept_token_in_another_client(long, account):
    pages = long.list_entities(results_per_page=900).by_page()
    first = [(one["PartitionKey"], one["n"]) for one in next(pages)]
    token = dict(pages.continuation_token)  # as a caller would store it
    with TableClient.from_connection_string(account.connection_string, long.table_name) as other:
        rest = [
            (one["PartitionKey"], one["n"])
            for page in other.list_entities(results_per_page=900).by_page(continuation_token=token)
            for one in page
        ]
    assert len(first) == 900 and len(rest) == 200
    assert sorted(first + rest) == [("a", n) for n in range(800)] + [("b'\u00fc", n) for n in range(300)]


def test_a_filtered_query_continues_over_pages(long):
    found = long.query_entities("n ge 250 and n lt 320", results_per_page=40)
    assert len(list(found)) == 70 + 50


def test_a_query_of_one_partition_stays_in_it(long):
    found = long.query_entities("PartitionKey eq @pk", parameters={"pk": "b'\u00fc"}, results_per_page=1000)
    assert len(list(found)) == 300


@pytest.mark.parametrize("size", [0, 1001])
def test_a_page_size_out_of_range_is_refused(long, size):
    with pytest.raises(HttpResponseError) as caught:
        next(long.list_entities(results_per_page=size).by_page())
    assert caught.value.status_code == 400
