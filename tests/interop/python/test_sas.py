"""Shared access signatures: what a token opens, and that it opens nothing else."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.data.tables import (
    AccountSasPermissions,
    ResourceTypes,
    TableAccessPolicy,
    TableClient,
    TableServiceClient,
    UpdateMode,
    generate_account_sas,
    generate_table_sas,
)

from conftest import code_of, entity

HOUR = timedelta(hours=1)


def now():
    return datetime.now(timezone.utc)


@pytest.fixture
def with_table_sas(account, table):
    """A client of the test's table that holds only the token described."""
    clients = []

    def client(permission="raud", table_name=None, **values):
        if "policy_id" not in values:
            values.setdefault("expiry", now() + HOUR)
        token = generate_table_sas(account.credential, table.table_name, permission=permission, **values)
        made = TableClient(account.endpoint, table_name or table.table_name, credential=AzureSasCredential(token))
        clients.append(made)
        return made

    yield client
    for made in clients:
        made.close()


@pytest.fixture
def with_account_sas(account):
    clients = []

    def client(resources, permission, **values):
        values.setdefault("expiry", now() + HOUR)
        token = generate_account_sas(
            account.credential, ResourceTypes.from_string(resources), AccountSasPermissions.from_string(permission), **values
        )
        made = TableServiceClient(account.endpoint, credential=AzureSasCredential(token))
        clients.append(made)
        return made

    yield client
    for made in clients:
        made.close()


def refused(code, call, *arguments, **options):
    with pytest.raises(HttpResponseError) as caught:
        result = call(*arguments, **options)
        if hasattr(result, "by_page"):
            list(result)
    assert (caught.value.status_code, code_of(caught.value)) == (403, code)


OPERATIONS = {
    "query": ("r", lambda table: list(table.list_entities())),
    "get": ("r", lambda table: table.get_entity("p", "r")),
    "insert": ("a", lambda table: table.create_entity(entity("new"))),
    "merge": ("u", lambda table: table.update_entity(entity(a=2))),
    "replace": ("u", lambda table: table.update_entity(entity(a=2), mode=UpdateMode.REPLACE)),
    "delete": ("d", lambda table: table.delete_entity("p", "r")),
    "upsert": ("au", lambda table: table.upsert_entity(entity(a=3))),
    "insert in a transaction": ("a", lambda table: table.submit_transaction([("create", entity("new"))])),
    "delete in a transaction": ("d", lambda table: table.submit_transaction([("delete", entity())])),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_table_sas_opens_exactly_what_its_letters_say(table, with_table_sas, operation):
    needed, call = OPERATIONS[operation]
    table.create_entity(entity(a=1))
    others = "".join(letter for letter in "raud" if letter not in needed)
    for insufficient in [others] + ([others + "a", others + "u"] if needed == "au" else []):
        with pytest.raises(HttpResponseError) as caught:
            call(with_table_sas("".join(letter for letter in "raud" if letter in insufficient)))
        assert (caught.value.status_code, code_of(caught.value)) == (403, "AuthorizationPermissionMismatch")
    assert table.get_entity("p", "r")["a"] == 1
    call(with_table_sas(needed))


def test_a_table_sas_in_the_url(account, table):
    table.create_entity(entity(a=1))
    token = generate_table_sas(account.credential, table.table_name, permission="r", expiry=now() + HOUR)
    with TableClient.from_table_url(f"{account.endpoint}/{table.table_name}?{token}") as client:
        assert client.get_entity("p", "r")["a"] == 1


def test_a_table_sas_in_a_connection_string(account, table):
    token = generate_table_sas(account.credential, table.table_name, permission="r", expiry=now() + HOUR)
    text = f"TableEndpoint={account.endpoint};SharedAccessSignature={token}"
    with TableClient.from_connection_string(text, table.table_name) as client:
        assert list(client.list_entities()) == []


def test_a_table_sas_is_for_its_table_only(service, table, with_table_sas):
    other = service.create_table(table.table_name + "x")
    try:
        with pytest.raises(HttpResponseError) as caught:
            list(with_table_sas(table_name=other.table_name).list_entities())
        assert caught.value.status_code == 403
    finally:
        other.delete_table()


def test_a_table_sas_cannot_delete_or_create_tables(table, with_table_sas):
    for call in (with_table_sas().delete_table, with_table_sas().create_table, with_table_sas().get_table_access_policy):
        with pytest.raises(HttpResponseError) as caught:
            call()
        assert caught.value.status_code == 403
    assert list(table.list_entities()) == []


@pytest.mark.parametrize(
    "times",
    [{"expiry": -HOUR}, {"start": HOUR, "expiry": 2 * HOUR}],
    ids=["expired", "not yet valid"],
)
def test_a_sas_outside_its_time_is_refused(with_table_sas, times):
    values = {name: now() + offset for name, offset in times.items()}
    with pytest.raises(ClientAuthenticationError) as caught:
        list(with_table_sas(**values).list_entities())
    assert code_of(caught.value) == "AuthenticationFailed"


def test_a_tampered_sas_is_refused(account, table):
    token = generate_table_sas(account.credential, table.table_name, permission="r", expiry=now() + HOUR)
    more = token.replace("sp=r", "sp=raud")
    assert more != token
    with TableClient(account.endpoint, table.table_name, credential=AzureSasCredential(more)) as client:
        refused("AuthenticationFailed", client.create_entity, entity())


def test_a_sas_for_another_address_is_refused(with_table_sas):
    refused("AuthorizationSourceIPMismatch", with_table_sas(ip_address_or_range="203.0.113.9").list_entities)
    refused(
        "AuthorizationSourceIPMismatch",
        with_table_sas(ip_address_or_range="203.0.113.9-203.0.113.20").list_entities,
    )


def test_a_sas_for_this_address_is_accepted(account, with_table_sas):
    if not account.host.startswith("127.0.0.1"):
        pytest.skip("the address the service sees is known on loopback only")
    assert list(with_table_sas(ip_address_or_range="127.0.0.0-127.0.0.9").list_entities()) == []


def test_a_sas_for_https_only_is_refused_over_http(account, with_table_sas):
    if account.endpoint.startswith("https"):
        pytest.skip("needs an endpoint without TLS")
    refused("AuthorizationProtocolMismatch", with_table_sas(protocol="https").list_entities)
    assert list(with_table_sas(protocol="https,http").list_entities()) == []


# Key ranges


@pytest.fixture
def ranged(table, with_table_sas):
    """Twelve entities, and a token from (b, 2) to (c, 2), both inclusive."""
    for partition in "abcd":
        for row in "123":
            table.create_entity(entity(row, partition, n=0))
    return with_table_sas(start_pk="b", start_rk="2", end_pk="c", end_rk="2")


def test_a_scan_under_a_key_range_returns_the_rows_in_it(ranged):
    found = [(one["PartitionKey"], one["RowKey"]) for one in ranged.list_entities()]
    assert found == [("b", "2"), ("b", "3"), ("c", "1"), ("c", "2")]
    found = ranged.query_entities("RowKey eq '2'", results_per_page=1)
    assert [one["PartitionKey"] for one in found] == ["b", "c"]


def test_a_read_outside_a_key_range_finds_nothing(ranged):
    assert ranged.get_entity("b", "3")["n"] == 0
    for partition, row in [("a", "1"), ("b", "1"), ("c", "3"), ("d", "1")]:
        with pytest.raises(ResourceNotFoundError):
            ranged.get_entity(partition, row)


def test_a_write_outside_a_key_range_is_refused(table, ranged):
    for partition, row in [("a", "1"), ("b", "1"), ("c", "3"), ("d", "1")]:
        outside = entity(row, partition, n=1)
        refused("AuthorizationFailure", ranged.create_entity, entity(row + "0", partition))
        refused("AuthorizationFailure", ranged.update_entity, outside)
        refused("AuthorizationFailure", ranged.upsert_entity, outside)
        refused("AuthorizationFailure", ranged.delete_entity, partition, row)
    ranged.update_entity(entity("2", "b", n=1))
    ranged.create_entity(entity("25", "b"))
    ranged.delete_entity("c", "1")
    assert {(one["PartitionKey"], one["RowKey"]) for one in table.list_entities() if one.get("n") == 1} == {("b", "2")}


def test_a_key_range_holds_inside_a_transaction(table, ranged):
    with pytest.raises(HttpResponseError) as caught:
        ranged.submit_transaction([("update", entity("2", "b", n=1)), ("update", entity("1", "b", n=1))])
    assert code_of(caught.value) == "AuthorizationFailure"
    assert table.get_entity("b", "2")["n"] == 0
    ranged.submit_transaction([("update", entity("2", "b", n=1)), ("update", entity("3", "b", n=1))])
    assert table.get_entity("b", "2")["n"] == 1


def test_a_range_of_partitions_needs_no_row_keys(table, with_table_sas):
    for partition in "abcd":
        table.create_entity(entity("r", partition))
    bounded = with_table_sas(start_pk="b", end_pk="c")
    assert [one["PartitionKey"] for one in bounded.list_entities()] == ["b", "c"]
    open_ended = with_table_sas(start_pk="c")
    assert [one["PartitionKey"] for one in open_ended.list_entities()] == ["c", "d"]


# Stored access policies


def test_a_stored_policy_supplies_permission_and_expiry(table, with_table_sas):
    table.create_entity(entity(a=1))
    table.set_table_access_policy({"reader": TableAccessPolicy(expiry=now() + HOUR, permission="r")})
    client = with_table_sas(permission=None, policy_id="reader")
    assert client.get_entity("p", "r")["a"] == 1
    refused("AuthorizationPermissionMismatch", client.create_entity, entity("new"))


def test_a_removed_policy_revokes_its_tokens(table, with_table_sas):
    table.set_table_access_policy({"reader": TableAccessPolicy(expiry=now() + HOUR, permission="r")})
    client = with_table_sas(permission=None, policy_id="reader")
    assert list(client.list_entities()) == []
    table.set_table_access_policy({})
    refused("AuthenticationFailed", client.list_entities)


def test_an_expired_policy_is_refused(table, with_table_sas):
    table.set_table_access_policy({"reader": TableAccessPolicy(expiry=now() - HOUR, permission="r")})
    refused("AuthenticationFailed", with_table_sas(permission=None, policy_id="reader").list_entities)


def test_an_unknown_policy_is_refused(with_table_sas):
    refused("AuthenticationFailed", with_table_sas(permission=None, policy_id="nobody").list_entities)


# Account SAS


def test_an_account_sas_manages_tables_and_entities(with_account_sas, table_name):
    client = with_account_sas("sco", "rwdlacu")
    made = client.create_table(table_name)
    made.create_entity(entity(a=1))
    made.upsert_entity(entity(b=2))
    made.submit_transaction([("create", entity("2")), ("delete", entity())])
    assert [one["RowKey"] for one in made.list_entities()] == ["2"]
    assert table_name in [one.name for one in client.list_tables()]
    assert client.get_service_properties()["analytics_logging"]
    client.delete_table(table_name)


def test_an_account_sas_is_bound_to_its_resource_types(with_account_sas, table):
    table.create_entity(entity(a=1))
    objects = with_account_sas("o", "rwdlacu")
    assert objects.get_table_client(table.table_name).get_entity("p", "r")["a"] == 1
    assert len(list(objects.get_table_client(table.table_name).list_entities())) == 1
    refused("AuthorizationResourceTypeMismatch", objects.list_tables)
    refused("AuthorizationResourceTypeMismatch", objects.get_service_properties)
    containers = with_account_sas("c", "rwdlacu")
    assert table.table_name in [one.name for one in containers.list_tables()]
    refused("AuthorizationResourceTypeMismatch", containers.get_table_client(table.table_name).list_entities)


def test_an_account_sas_is_bound_to_its_permissions(with_account_sas, table):
    reader = with_account_sas("sco", "rl")
    assert list(reader.get_table_client(table.table_name).list_entities()) == []
    refused("AuthorizationPermissionMismatch", reader.get_table_client(table.table_name).create_entity, entity())
    refused("AuthorizationPermissionMismatch", reader.create_table, table.table_name + "x")
    refused("AuthorizationPermissionMismatch", reader.delete_table, table.table_name)
    adder = with_account_sas("o", "a").get_table_client(table.table_name)
    adder.create_entity(entity(a=1))
    refused("AuthorizationPermissionMismatch", adder.upsert_entity, entity(a=2))
    refused("AuthorizationPermissionMismatch", adder.get_entity, "p", "r")


def test_an_expired_account_sas_is_refused(with_account_sas):
    refused("AuthenticationFailed", with_account_sas("sco", "rl", expiry=now() - HOUR).list_tables)
