"""Properties: all eight EDM types there and back, values at their edges included."""

import math
from datetime import datetime, timedelta, timezone
from enum import Enum
from uuid import UUID

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import EdmType, EntityProperty, UpdateMode

from conftest import code_of, entity, own

UTC = timezone.utc


def there_and_back(table, value):
    """What a value has become after an insert and a read."""
    table.upsert_entity(entity(value=value), mode=UpdateMode.REPLACE)
    return table.get_entity("p", "r")["value"]


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_int32(table, value):
    back = there_and_back(table, value)
    assert back == value and type(back) is int


@pytest.mark.parametrize("value", [0, 7, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
def test_int64_keeps_every_bit_and_its_type(table, value):
    assert there_and_back(table, (value, EdmType.INT64)) == EntityProperty(value, EdmType.INT64)


@pytest.mark.parametrize(
    "value", [0.0, 3.0, -12.0, 2.0**33, 0.1, 1 / 3, 1e24, 1.7976931348623157e308, 5e-324, -2.5e-10, 1e15, 1e16]
)
def test_double_stays_a_double_even_when_whole(table, value):
    back = there_and_back(table, value)
    assert back == value and type(back) is float


def test_double_has_infinities_and_not_a_number(table):
    assert there_and_back(table, math.inf) == math.inf
    assert there_and_back(table, -math.inf) == -math.inf
    assert math.isnan(there_and_back(table, math.nan))


@pytest.mark.parametrize("value", [True, False])
def test_boolean(table, value):
    assert there_and_back(table, value) is value


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 2, 29, 12, 30, 15, 123456, UTC),
        datetime(2024, 2, 29, 12, 30, 15, 120000, UTC),
        datetime(2024, 2, 29, tzinfo=UTC),
        datetime(1601, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2024, 7, 1, 9, 0, 0, 1, timezone(timedelta(hours=5, minutes=30))),
    ],
)
def test_datetime_keeps_microseconds_and_the_instant(table, value):
    back = there_and_back(table, value)
    assert back == value and back.tzinfo is not None


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("2024-02-29T12:30:15.1234567Z", "2024-02-29T12:30:15.1234567Z"),
        ("2024-02-29T12:30:15.5000000Z", "2024-02-29T12:30:15.5Z"),
        ("2024-02-29T12:30:15.0000000Z", "2024-02-29T12:30:15Z"),
    ],
)
def test_datetime_keeps_a_hundred_nanoseconds_and_trims_zeros(table, sent, stored):
    back = there_and_back(table, (sent, EdmType.DATETIME))
    assert back.tables_service_value == stored
    # What was read goes back unchanged, digits beyond a microsecond included.
    assert there_and_back(table, back).tables_service_value == stored


def test_a_datetime_before_1601_is_refused(table):
    with pytest.raises(HttpResponseError) as caught:
        table.create_entity(entity(value=datetime(1600, 12, 31, tzinfo=UTC)))
    assert caught.value.status_code == 400


def test_guid(table):
    value = UUID("C9DA6455-213D-42C9-9A79-3E9149A57833")
    assert there_and_back(table, value) == value


@pytest.mark.parametrize("value", [b"", b"\x00", bytes(range(256)), b"binary"])
def test_binary(table, value):
    assert there_and_back(table, value) == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "  leading and trailing  ",
        "it's",
        'say "hello"',
        "back\\slash",
        "line\nbreak\r\nand\ttab",
        "Grüße, 世界",
        "\U0001f600 outside the basic plane",
        "e\u0301 combining",
        "\u2028\u2029\ufeff\ufffd",
        "\x01\x1f\x7f",
        "</script>&amp;<![CDATA[",
        "2024-02-29T12:30:15Z",
        "3.0",
        "NaN",
    ],
)
def test_string(table, value):
    back = there_and_back(table, value)
    assert back == value and type(back) is str


def test_an_enum_is_stored_as_text(table):
    class Colour(Enum):
        RED = "red"

    assert there_and_back(table, Colour.RED) == "Colour.RED"


def test_none_is_not_stored(table):
    table.create_entity(entity(a=None, b=(None, EdmType.INT64), c=1))
    assert own(table.get_entity("p", "r")) == {"c": 1}


def test_a_merge_of_none_leaves_the_stored_property(table):
    table.create_entity(entity(a=1))
    table.update_entity(entity(a=None, b=2), mode=UpdateMode.MERGE)
    assert own(table.get_entity("p", "r")) == {"a": 1, "b": 2}


def test_a_merge_may_change_the_type_of_a_property(table):
    table.create_entity(entity(a=1))
    table.update_entity(entity(a="one"), mode=UpdateMode.MERGE)
    assert table.get_entity("p", "r")["a"] == "one"


def test_explicit_types_are_accepted_for_every_type(table):
    guid = UUID("c9da6455-213d-42c9-9a79-3e9149a57833")
    table.create_entity(
        entity(
            text=("text", EdmType.STRING),
            small=(7, EdmType.INT32),
            large=(7, EdmType.INT64),
            real=(7, EdmType.DOUBLE),
            truth=(True, EdmType.BOOLEAN),
            when=(datetime(2024, 1, 1, tzinfo=UTC), EdmType.DATETIME),
            guid=(guid, EdmType.GUID),
            binary=(b"\x00\xff", EdmType.BINARY),
        )
    )
    back = own(table.get_entity("p", "r"))
    assert back == {
        "text": "text",
        "small": 7,
        "large": EntityProperty(7, EdmType.INT64),
        "real": 7.0,
        "truth": True,
        "when": datetime(2024, 1, 1, tzinfo=UTC),
        "guid": guid,
        "binary": b"\x00\xff",
    }
    assert type(back["real"]) is float


def test_a_listing_returns_the_same_types_as_a_read(table):
    table.create_entity(
        entity(
            large=(2**53 + 1, EdmType.INT64),
            real=3.0,
            nan=math.inf,
            when=datetime(2024, 1, 1, 0, 0, 0, 5, UTC),
            guid=UUID(int=7),
            binary=b"\x01",
            text="ö",
        )
    )
    [listed] = table.list_entities()
    read = table.get_entity("p", "r")
    assert listed == read
    assert listed.metadata["etag"] == read.metadata["etag"]
    assert listed.metadata["timestamp"] == read.metadata["timestamp"]


@pytest.mark.parametrize("name", ["größe", "名前", "_under_score", "Ünïcode1", "a" * 255])
def test_a_property_name_may_be_any_identifier(table, name):
    table.create_entity(entity(**{name: 5}))
    assert own(table.get_entity("p", "r")) == {name: 5}


def test_property_names_differ_by_case(table):
    table.create_entity(entity(name=1, Name=2, NAME=3))
    assert own(table.get_entity("p", "r")) == {"name": 1, "Name": 2, "NAME": 3}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("not a guid", EdmType.GUID),
        ("yesterday", EdmType.DATETIME),
        ("1.5.2", EdmType.DOUBLE),
    ],
)
def test_text_that_is_not_of_its_type_is_invalid_input(table, value, kind):
    with pytest.raises(HttpResponseError) as caught:
        table.create_entity(entity(value=(value, kind)))
    assert caught.value.status_code == 400
    assert code_of(caught.value) == "InvalidInput"
