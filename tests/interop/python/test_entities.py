"""Entities: insert, get, update, upsert, delete, and the ETags that guard them."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import EdmType, TableClient, TableEntity, UpdateMode

from conftest import code_of, entity, own


def test_an_inserted_entity_is_read_back_with_its_metadata(table):
    written = table.create_entity(entity(name="Ada", age=36))
    stored = table.get_entity("p", "r")
    assert dict(stored) == {"PartitionKey": "p", "RowKey": "r", "name": "Ada", "age": 36}
    assert stored.metadata["etag"] == written["etag"]
    assert written["etag"].startswith("W/\"datetime'")
    assert abs(datetime.now(timezone.utc) - stored.metadata["timestamp"]) < timedelta(minutes=15)


def test_the_etag_is_the_timestamp_written_with_escaped_colons(table):
    table.create_entity(entity())
    stored = table.get_entity("p", "r")
    instant = stored.metadata["timestamp"].tables_service_value.replace(":", "%3A")
    assert stored.metadata["etag"] == f"W/\"datetime'{instant}'\""


def test_an_insert_names_the_version_and_applies_no_preference_unasked(table):
    written = table.create_entity(entity())
    assert written["version"] == "2019-02-02"
    assert "preference_applied" not in written


@pytest.mark.parametrize("preference", ["return-no-content", "return-content"])
def test_an_insert_applies_the_preference_it_is_given(table, preference):
    written = table.create_entity(entity(a=1), headers={"Prefer": preference})
    assert written["preference_applied"] == preference
    if preference == "return-content":
        assert written["content"]["a"] == 1
    else:
        assert written["content"] is None


def test_inserting_an_existing_entity_is_refused(table):
    table.create_entity(entity(a=1))
    with pytest.raises(ResourceExistsError) as caught:
        table.create_entity(entity(a=2))
    assert code_of(caught.value) == "EntityAlreadyExists"
    assert table.get_entity("p", "r")["a"] == 1


def test_reading_an_absent_entity_says_that_the_resource_is_not_there(table):
    with pytest.raises(ResourceNotFoundError) as caught:
        table.get_entity("p", "absent")
    assert caught.value.status_code == 404
    assert code_of(caught.value) == "ResourceNotFound"


def test_get_with_select_returns_what_was_asked_and_null_for_what_is_missing(table):
    table.create_entity(entity(a=1, b=2))
    stored = table.get_entity("p", "r", select=["a", "missing"])
    assert dict(stored) == {"a": 1, "missing": None}
    assert stored.metadata["etag"]


def test_merge_keeps_the_properties_it_does_not_name(table):
    table.create_entity(entity(a=1, b=2))
    table.update_entity(entity(b="two", c=3.5), mode=UpdateMode.MERGE)
    assert own(table.get_entity("p", "r")) == {"a": 1, "b": "two", "c": 3.5}


def test_replace_drops_the_properties_it_does_not_name(table):
    table.create_entity(entity(a=1, b=2))
    table.update_entity(entity(c=3), mode=UpdateMode.REPLACE)
    assert own(table.get_entity("p", "r")) == {"c": 3}


@pytest.mark.parametrize("mode", UpdateMode)
def test_an_update_of_an_absent_entity_is_refused(table, mode):
    with pytest.raises(ResourceNotFoundError) as caught:
        table.update_entity(entity(a=1), mode=mode)
    assert code_of(caught.value) == "ResourceNotFound"


def test_upsert_merge_inserts_and_then_merges(table):
    table.upsert_entity(entity(a=1), mode=UpdateMode.MERGE)
    table.upsert_entity(entity(b=2), mode=UpdateMode.MERGE)
    assert own(table.get_entity("p", "r")) == {"a": 1, "b": 2}


def test_upsert_replace_inserts_and_then_replaces(table):
    table.upsert_entity(entity(a=1), mode=UpdateMode.REPLACE)
    table.upsert_entity(entity(b=2), mode=UpdateMode.REPLACE)
    assert own(table.get_entity("p", "r")) == {"b": 2}


@pytest.mark.parametrize("mode", UpdateMode)
def test_an_update_under_the_current_etag_gives_a_new_one(table, mode):
    first = table.create_entity(entity(a=1))["etag"]
    second = table.update_entity(
        entity(a=2), mode=mode, etag=first, match_condition=MatchConditions.IfNotModified
    )["etag"]
    assert second != first
    assert table.get_entity("p", "r").metadata["etag"] == second


@pytest.mark.parametrize("mode", UpdateMode)
def test_an_update_under_a_stale_etag_is_refused_and_changes_nothing(table, mode):
    stale = table.create_entity(entity(a=1))["etag"]
    table.update_entity(entity(a=2))
    with pytest.raises(ResourceModifiedError) as caught:
        table.update_entity(entity(a=3), mode=mode, etag=stale, match_condition=MatchConditions.IfNotModified)
    assert caught.value.status_code == 412
    assert code_of(caught.value) == "UpdateConditionNotSatisfied"
    assert table.get_entity("p", "r")["a"] == 2


def test_an_entity_read_carries_the_etag_of_its_update(table):
    table.create_entity(entity(a=1))
    mine, theirs = table.get_entity("p", "r"), table.get_entity("p", "r")
    theirs["a"] = 2
    table.update_entity(theirs, match_condition=MatchConditions.IfNotModified)
    mine["a"] = 3
    with pytest.raises(ResourceModifiedError):
        table.update_entity(mine, match_condition=MatchConditions.IfNotModified)


def test_a_delete_under_a_stale_etag_is_refused(table):
    stale = table.create_entity(entity(a=1))["etag"]
    fresh = table.update_entity(entity(a=2))["etag"]
    with pytest.raises(ResourceModifiedError) as caught:
        table.delete_entity("p", "r", etag=stale, match_condition=MatchConditions.IfNotModified)
    assert code_of(caught.value) == "UpdateConditionNotSatisfied"
    table.delete_entity("p", "r", etag=fresh, match_condition=MatchConditions.IfNotModified)
    with pytest.raises(ResourceNotFoundError):
        table.get_entity("p", "r")


def test_an_etag_that_only_looks_like_one_does_not_match(table):
    table.create_entity(entity(a=1))
    with pytest.raises(ResourceModifiedError) as caught:
        table.update_entity(entity(a=2), etag='W/"wrong"', match_condition=MatchConditions.IfNotModified)
    assert caught.value.status_code == 412


def test_deleting_an_absent_entity_is_not_an_error_to_the_sdk(table):
    table.delete_entity("p", "absent")


def test_an_entity_may_be_deleted_by_itself(table):
    table.create_entity(entity(a=1))
    table.delete_entity(table.get_entity("p", "r"))
    with pytest.raises(ResourceNotFoundError):
        table.get_entity("p", "r")


def test_a_timestamp_that_is_sent_is_ignored(table):
    sent = TableEntity(entity(a=1))
    sent["Timestamp"] = datetime(1999, 1, 1, tzinfo=timezone.utc)
    table.create_entity(sent)
    assert table.get_entity("p", "r").metadata["timestamp"].year > 2000


def test_properties_come_back_in_the_order_they_were_written(table):
    table.create_entity(entity(zebra=1, apple=2, mango=3))
    assert list(own(table.get_entity("p", "r"))) == ["zebra", "apple", "mango"]


FORMATS = {
    "application/json;odata=nometadata": set(),
    "application/json;odata=minimalmetadata": set(),
    "application/json;odata=fullmetadata": {"type", "id", "editLink"},
}


@pytest.mark.parametrize("accept", FORMATS)
def test_an_entity_is_read_at_each_level_of_metadata(account, table, accept):
    etag = table.create_entity(entity("it's", large=(2**40, EdmType.INT64), real=2.0))["etag"]
    stored = table.get_entity("p", "it's", headers={"Accept": accept})
    # At the level without metadata the SDK makes the ETag out of the timestamp.
    assert stored.metadata["etag"] == etag
    assert set(stored.metadata) - {"etag", "timestamp"} == FORMATS[accept]
    assert stored["real"] == 2.0
    assert stored["large"] == ("1099511627776" if "nometadata" in accept else (2**40, EdmType.INT64))
    if "fullmetadata" in accept:
        address = f"{table.table_name}(PartitionKey='p',RowKey='it''s')"
        assert stored.metadata["editLink"] == address
        assert stored.metadata["id"] == f"{account.endpoint}/{address}"
        assert stored.metadata["type"] == f"{account.name}.{table.table_name}"


@pytest.mark.parametrize("version", ["2019-02-02", "2019-07-07", "2020-12-06"])
def test_every_version_the_sdk_speaks_is_answered_in_kind(account, table, version):
    with TableClient.from_connection_string(
        account.connection_string, table.table_name, api_version=version
    ) as client:
        assert client.create_entity(entity(a=1))["version"] == version
        assert client.get_entity("p", "r")["a"] == 1
