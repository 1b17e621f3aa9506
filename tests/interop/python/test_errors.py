"""Refusals: the status, the code and the exception a caller of the SDK gets."""

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.data.tables import TableClient, TableServiceClient, UpdateMode
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from conftest import code_of, entity, own


def refused(status, code, call, *arguments, **options):
    with pytest.raises(HttpResponseError) as caught:
        call(*arguments, **options)
    assert (caught.value.status_code, code_of(caught.value)) == (status, code)
    return caught.value


@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.create_entity(entity()),
        lambda table: table.upsert_entity(entity()),
        lambda table: table.update_entity(entity()),
        lambda table: table.get_entity("p", "r"),
        lambda table: list(table.list_entities()),
    ],
    ids=["create", "upsert", "update", "get", "list"],
)
def test_an_operation_on_a_missing_table_says_so(service, table_name, call):
    with pytest.raises(ResourceNotFoundError) as caught:
        call(service.get_table_client(table_name))
    assert code_of(caught.value) == "TableNotFound"


def test_an_error_carries_the_request_id_and_the_time(table):
    error = refused(404, "ResourceNotFound", table.get_entity, "p", "absent")
    assert "The specified resource does not exist.\nRequestId:" in error.message
    assert f"RequestId:{error.response.headers['x-ms-request-id']}\nTime:" in error.message


def test_a_wrong_key_is_refused(account, table):
    wrong = AzureNamedKeyCredential(account.name, "d3Jvbmcga2V5")
    with TableClient(account.endpoint, table.table_name, credential=wrong) as client:
        with pytest.raises(ClientAuthenticationError) as caught:
            list(client.list_entities())
    assert (caught.value.status_code, code_of(caught.value)) == (403, "AuthenticationFailed")


@pytest.mark.parametrize("kind", ["queue", "blob"])
def test_a_wrong_key_is_told_the_string_to_sign(account, kind):
    wrong = {"account_name": account.name, "account_key": "d3Jvbmcga2V5"}
    if kind == "queue":
        call = QueueServiceClient(account.queue_endpoint, credential=wrong).list_queues()
    else:
        call = BlobServiceClient(account.blob_endpoint, credential=wrong).list_containers()
    with pytest.raises(ClientAuthenticationError) as caught:
        next(iter(call))
    detail = str(caught.value)
    assert "AuthenticationErrorDetail" in detail
    assert "is not the same as any computed signature" in detail
    assert f"x-ms-version:{caught.value.response.request.headers['x-ms-version']}\n/{account.name}/" in detail


def test_a_refusal_reaches_a_client_that_sends_megabytes(account, container):
    wrong = {"account_name": account.name, "account_key": "d3Jvbmcga2V5"}
    with BlobServiceClient(account.blob_endpoint, credential=wrong, retry_total=0) as client:
        blob = client.get_blob_client(container.container_name, "large")
        with pytest.raises(ClientAuthenticationError) as caught:
            blob.upload_blob(b"x" * (40 * 1024 * 1024))
    assert (caught.value.status_code, code_of(caught.value)) == (403, "AuthenticationFailed")


def test_an_unknown_account_is_refused(account, table):
    other = AzureNamedKeyCredential("nobody", account.key)
    with TableServiceClient(account.endpoint, credential=other) as client:
        with pytest.raises(HttpResponseError) as caught:
            list(client.list_tables())
    assert caught.value.status_code == 403


def test_a_rotated_key_takes_effect_without_a_new_client(account, table):
    credential = AzureNamedKeyCredential(account.name, "d3Jvbmcga2V5")
    with TableClient(account.endpoint, table.table_name, credential=credential) as client:
        with pytest.raises(ClientAuthenticationError):
            list(client.list_entities())
        credential.update(account.name, account.key)
        assert list(client.list_entities()) == []


def test_252_properties_are_accepted_and_253_are_not(table):
    most = {f"p{number}": number for number in range(252)}
    table.create_entity(entity(**most))
    assert own(table.get_entity("p", "r")) == most
    refused(400, "TooManyProperties", table.create_entity, entity("more", **most, one_more=1))
    refused(400, "TooManyProperties", table.update_entity, entity(one_more=1), mode=UpdateMode.MERGE)


def test_a_property_name_over_255_characters_is_refused(table):
    refused(400, "PropertyNameTooLong", table.create_entity, entity(**{"a" * 256: 1}))


def test_a_property_name_with_a_dash_is_refused(table):
    refused(400, "PropertyNameInvalid", table.create_entity, entity(**{"with-dash": 1}))


def test_a_string_of_64_kib_is_accepted_and_more_is_not(table):
    table.create_entity(entity(a="x" * 32_768))
    assert len(table.get_entity("p", "r")["a"]) == 32_768
    refused(400, "PropertyValueTooLarge", table.create_entity, entity("more", a="x" * 32_769))


def test_a_binary_of_64_kib_is_accepted_and_more_is_not(table):
    table.create_entity(entity(a=b"\xff" * 65_536))
    assert table.get_entity("p", "r")["a"] == b"\xff" * 65_536
    refused(400, "PropertyValueTooLarge", table.create_entity, entity("more", a=b"\xff" * 65_537))


def test_an_entity_over_a_mebibyte_is_refused(table):
    # Sixteen full properties and their names are just over; fifteen are under.
    table.create_entity(entity(**{f"p{number}": b"\0" * 65_536 for number in range(15)}))
    large = {f"p{number}": b"\0" * 65_536 for number in range(16)}
    refused(400, "EntityTooLarge", table.create_entity, entity("more", **large))


def test_a_merge_that_makes_an_entity_too_large_is_refused(table):
    table.create_entity(entity(**{f"p{number}": b"\0" * 65_536 for number in range(15)}))
    refused(400, "EntityTooLarge", table.update_entity, entity(last=b"\0" * 65_536), mode=UpdateMode.MERGE)


@pytest.mark.parametrize("name", ["1table", "aa", "a" * 64, "my_table"])
@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.create_entity(entity()),
        lambda table: table.upsert_entity(entity()),
        lambda table: table.get_entity("p", "r"),
        lambda table: table.delete_entity("p", "r"),
        lambda table: table.get_table_access_policy(),
        lambda table: table.submit_transaction([("upsert", entity())]),
    ],
    ids=["create", "upsert", "get", "delete", "get policies", "transaction"],
)
def test_an_operation_on_a_badly_named_table_is_refused(service, name, call):
    # The SDK turns exactly this answer of the service into a ValueError.
    with pytest.raises(ValueError, match="Storage table names must be alphanumeric"):
        call(service.get_table_client(name))


def test_an_endpoint_that_names_a_table_earns_a_hint(account, service, table_name):
    # A common mistake: the service takes the path for the table's and says so, the SDK adds what may be wrong.
    hint = "Please check your account URL"
    with TableClient(f"{account.endpoint}/{table_name}", table_name, credential=account.credential) as client:
        with pytest.raises(ResourceNotFoundError, match=hint) as caught:
            client.create_table()
        assert code_of(caught.value) == "TableNotFound"
        service.create_table(table_name)
        with pytest.raises(HttpResponseError, match=hint) as caught:
            client.create_table()
        assert (caught.value.status_code, code_of(caught.value)) == (400, "PropertiesNeedValue")
        with pytest.raises(HttpResponseError, match=hint) as caught:
            client.delete_table()
        assert (caught.value.status_code, code_of(caught.value)) == (400, "InvalidInput")
    service.delete_table(table_name)


def test_the_connection_stays_usable_after_an_error(account, table):
    with TableClient.from_connection_string(account.connection_string, table.table_name) as client:
        for number in range(3):
            refused(404, "ResourceNotFound", client.get_entity, "p", "absent")
            client.create_entity(entity(str(number)))
    assert len(list(table.list_entities())) == 3
