"""Credentials of azure-identity and MSAL get tokens from the server, and its services honour their roles.

`tests/interop/run` starts a server of its own for these tests, with `--https --oauth issue` and `identities.json`, and
names the file with its ready line in ROWKEY_ISSUER. Clients trust its certificate by REQUESTS_CA_BUNDLE.
"""

import base64
import json
import os
import urllib.error
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import msal
import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.data.tables import TableServiceClient
from azure.identity import (
    ClientSecretCredential,
    DefaultAzureCredential,
    ManagedIdentityCredential,
    UsernamePasswordCredential,
    WorkloadIdentityCredential,
)
from azure.storage.blob import BlobSasPermissions, BlobServiceClient, generate_blob_sas
from azure.storage.queue import QueueServiceClient

TENANT = "5f0c5b0e-52c3-4cd1-9c9b-3f1a1c1f2d10"
STORAGE = "https://storage.azure.com/.default"
# Those of identities.json.
WRITER = ("aaaaaaaa-0000-0000-0000-000000000001", "interop-writer")
READER = ("aaaaaaaa-0000-0000-0000-000000000002", "interop-reader")
SENDER = "aaaaaaaa-0000-0000-0000-000000000003"
MANAGED_READER = "aaaaaaaa-0000-0000-0000-000000000004"

pytestmark = pytest.mark.skipif("ROWKEY_ISSUER" not in os.environ, reason="no server that issues tokens")


@pytest.fixture(scope="module")
def issuer():
    with open(os.environ["ROWKEY_ISSUER"]) as file:
        return SimpleNamespace(**json.load(file))


@pytest.fixture
def name():
    """The name of a table, queue or container of the test's own."""
    return f"t{uuid.uuid4().hex}"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Variables of the machine, which may be one in Azure, do not decide what is tested."""
    for variable in list(os.environ):
        if variable.startswith(("AZURE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(variable)


def secret(issuer, identity, **options):
    return ClientSecretCredential(
        TENANT, *identity, authority=issuer.authority, disable_instance_discovery=True, **options
    )


def tables(issuer, credential):
    return TableServiceClient(issuer.table, credential=credential)


def queues(issuer, credential):
    return QueueServiceClient(issuer.queue, credential=credential)


def blobs(issuer, credential):
    return BlobServiceClient(issuer.blob, credential=credential)


def refused(call):
    """The operation is refused because no role permits it."""
    with pytest.raises(HttpResponseError) as error:
        call()
    assert error.value.status_code == 403
    assert "AuthorizationPermissionMismatch" in str(error.value)


def claims(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_a_client_secret_works_with_all_three_services(issuer, name):
    credential = secret(issuer, WRITER)
    table = tables(issuer, credential).create_table(name)
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "n": 1})
    table.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": "s"})])
    assert [row["RowKey"] for row in table.list_entities()] == ["r", "s"]
    queue = queues(issuer, credential).create_queue(name)
    queue.send_message("hello")
    assert queue.receive_message().content == "hello"
    container = blobs(issuer, credential).create_container(name)
    container.upload_blob("a", b"content")
    assert container.download_blob("a").readall() == b"content"


def test_a_reader_is_refused_what_its_roles_do_not_permit(issuer, name):
    writer, reader = secret(issuer, WRITER), secret(issuer, READER)
    tables(issuer, writer).create_table(name).create_entity({"PartitionKey": "p", "RowKey": "r"})
    table = tables(issuer, reader).get_table_client(name)
    assert table.get_entity("p", "r")["RowKey"] == "r"
    refused(lambda: table.create_entity({"PartitionKey": "p", "RowKey": "s"}))
    refused(lambda: table.upsert_entity({"PartitionKey": "p", "RowKey": "r"}))
    refused(lambda: table.delete_entity("p", "r"))
    refused(lambda: tables(issuer, reader).create_table(name + "x"))
    queues(issuer, writer).create_queue(name).send_message("hello")
    queue = queues(issuer, reader).get_queue_client(name)
    assert [message.content for message in queue.peek_messages()] == ["hello"]
    refused(lambda: queue.receive_message())
    refused(lambda: queue.send_message("x"))
    blobs(issuer, writer).create_container(name).upload_blob("a", b"content")
    container = blobs(issuer, reader).get_container_client(name)
    assert [blob.name for blob in container.list_blobs()] == ["a"]
    refused(lambda: container.upload_blob("b", b""))
    refused(lambda: container.delete_blob("a"))
    refused(lambda: blobs(issuer, writer).get_blob_client(name, "a").set_blob_tags({"a": "b"}))


def test_a_wrong_secret_is_refused(issuer):
    for identity, number in [((WRITER[0], "wrong"), "AADSTS7000215"), (("no-such-app", "x"), "AADSTS700016")]:
        with pytest.raises(ClientAuthenticationError, match=number):
            secret(issuer, identity).get_token(STORAGE)


def test_msal_gets_and_caches_a_token(issuer, name):
    application = msal.ConfidentialClientApplication(
        WRITER[0],
        client_credential=WRITER[1],
        authority=f"{issuer.authority}/{TENANT}",
        instance_discovery=False,
    )
    result = application.acquire_token_for_client([STORAGE])
    assert result["token_source"] == "identity_provider", result
    assert claims(result["access_token"])["appid"] == WRITER[0]
    assert application.acquire_token_for_client([STORAGE])["token_source"] == "cache"

    class Credential:
        def get_token(self, *scopes, **_):
            return AccessToken(result["access_token"], 2**31)

    tables(issuer, Credential()).create_table(name)
    wrong = msal.ConfidentialClientApplication(
        WRITER[0],
        client_credential="wrong",
        authority=f"{issuer.authority}/{TENANT}",
        instance_discovery=False,
    )
    result = wrong.acquire_token_for_client([STORAGE])
    assert (result["error"], result["error_codes"]) == ("invalid_client", [7000215])


@pytest.fixture
def no_user_realm(monkeypatch):
    """MSAL asks where a user signs in at the host of the authority without its port, so at port 443."""
    monkeypatch.setattr(msal.authority.Authority, "_domains_without_user_realm_discovery", {"127.0.0.1"})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("no_user_realm")
def test_msal_signs_a_user_in_and_refreshes(issuer):
    application = msal.PublicClientApplication(
        "04b07795-8ddb-461a-bbee-02f9e1bf7b46",
        authority=f"{issuer.authority}/organizations",
        instance_discovery=False,
    )
    scopes = ["https://storage.azure.com/user_impersonation"]
    result = application.acquire_token_by_username_password("anna@contoso.com", "interop-anna", scopes)
    assert "access_token" in result, result
    assert claims(result["access_token"])["upn"] == "anna@contoso.com"
    (account,) = application.get_accounts()
    again = application.acquire_token_silent_with_error(scopes, account, force_refresh=True)
    assert again["token_source"] == "identity_provider"
    wrong = application.acquire_token_by_username_password("anna@contoso.com", "wrong", scopes)
    assert wrong["error_codes"] == [50126]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("no_user_realm")
def test_a_user_has_a_role_on_one_table(issuer):
    credential = UsernamePasswordCredential(
        "04b07795-8ddb-461a-bbee-02f9e1bf7b46",
        "anna@contoso.com",
        "interop-anna",
        tenant_id=TENANT,
        authority=issuer.authority,
        disable_instance_discovery=True,
    )
    service = tables(issuer, credential)
    service.create_table_if_not_exists("annas").upsert_entity({"PartitionKey": "p", "RowKey": "r"})
    refused(lambda: service.create_table("others"))
    refused(lambda: list(service.list_tables()))


def test_a_managed_identity_of_a_virtual_machine(issuer, name, monkeypatch):
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", issuer.authority)
    queues(issuer, secret(issuer, WRITER)).create_queue(name)
    queue = queues(issuer, ManagedIdentityCredential()).get_queue_client(name)
    queue.send_message("hello")
    refused(lambda: queue.peek_messages())
    reader = ManagedIdentityCredential(client_id=MANAGED_READER)
    assert list(tables(issuer, reader).list_tables()) is not None
    refused(lambda: tables(issuer, reader).create_table(name))
    with pytest.raises(ClientAuthenticationError):
        ManagedIdentityCredential(client_id="no-such-identity").get_token(STORAGE)


def test_a_managed_identity_of_app_service(issuer, name, monkeypatch):
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{issuer.authority}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "any")
    token = ManagedIdentityCredential().get_token(STORAGE).token
    assert claims(token)["appid"] == SENDER
    token = ManagedIdentityCredential(client_id=MANAGED_READER).get_token(STORAGE).token
    assert claims(token)["appid"] == MANAGED_READER


def test_the_default_credential_by_variables(issuer, name, monkeypatch):
    monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
    monkeypatch.setenv("AZURE_CLIENT_ID", WRITER[0])
    monkeypatch.setenv("AZURE_CLIENT_SECRET", WRITER[1])
    credential = DefaultAzureCredential(authority=issuer.authority, disable_instance_discovery=True)
    tables(issuer, credential).create_table(name)


def test_the_default_credential_by_a_managed_identity(issuer, monkeypatch):
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", issuer.authority)
    credential = DefaultAzureCredential(authority=issuer.authority, disable_instance_discovery=True)
    assert claims(credential.get_token(STORAGE).token)["appid"] == SENDER


def test_a_workload_identity_sends_the_token_of_its_file(issuer, name, tmp_path):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    file = tmp_path / "token"
    file.write_text(f"{part({'alg': 'RS256'})}.{part({'sub': 'system:serviceaccount:a:b'})}.c2ln")
    credential = WorkloadIdentityCredential(
        tenant_id=TENANT,
        client_id=WRITER[0],
        token_file_path=str(file),
        authority=issuer.authority,
        disable_instance_discovery=True,
    )
    tables(issuer, credential).create_table(name)


def test_a_token_of_another_issuer_or_for_another_resource_is_refused(issuer):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    genuine = secret(issuer, WRITER).get_token(STORAGE).token
    forged = claims(genuine) | {"exp": 2**31}
    for token in [
        f"{genuine.split('.')[0]}.{part(forged)}.{genuine.split('.')[2]}",
        secret(issuer, WRITER).get_token("https://graph.microsoft.com/.default").token,
    ]:
        headers = {"Authorization": f"Bearer {token}", "x-ms-version": "2020-12-06"}
        request = urllib.request.Request(f"{issuer.table}/Tables", headers=headers)
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request)
        assert error.value.code == 401
        challenge = error.value.headers["WWW-Authenticate"]
        assert challenge == (
            f"Bearer authorization_uri={issuer.authority}/{TENANT}/oauth2/authorize "
            "resource_id=https://storage.azure.com"
        )


def test_a_signature_with_a_delegation_key_has_at_most_the_rights_of_its_user(issuer, name):
    writer, reader = secret(issuer, WRITER), secret(issuer, READER)
    blobs(issuer, writer).create_container(name).upload_blob("a", b"content")
    now = datetime.now(timezone.utc)
    key = blobs(issuer, reader).get_user_delegation_key(now, now + timedelta(hours=1))
    sas = generate_blob_sas(
        "devstoreaccount1",
        name,
        "a",
        user_delegation_key=key,
        permission=BlobSasPermissions(read=True, write=True, delete=True),
        expiry=now + timedelta(hours=1),
    )
    blob = blobs(issuer, sas).get_blob_client(name, "a")
    assert blob.download_blob().readall() == b"content"
    refused(lambda: blob.delete_blob())
    with pytest.raises(HttpResponseError):
        blobs(issuer, secret(issuer, WRITER)).get_container_client(name).get_container_access_policy()


def test_missing_resources_are_missing_also_with_a_token(issuer, name):
    with pytest.raises(ResourceNotFoundError):
        tables(issuer, secret(issuer, READER)).get_table_client(name).get_entity("p", "r")


def test_a_token_expires_by_the_clock_of_the_server(issuer, name):
    """The last one: the clock of the server does not go back."""
    credential = secret(issuer, WRITER)
    table = tables(issuer, credential).create_table(name)
    body = json.dumps({"seconds": 3601}).encode()
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{issuer.control}/v1/clock/advance", body, headers))
    # The credential keeps its token, which has not expired by the clock of this machine.
    for call in [
        lambda: table.create_entity({"PartitionKey": "p", "RowKey": "r"}),
        lambda: blobs(issuer, credential).create_container(name),
        lambda: queues(issuer, credential).create_queue(name),
    ]:
        with pytest.raises(HttpResponseError) as error:
            call()
        assert error.value.status_code == 401
        assert "InvalidAuthenticationInfo" in str(error.value)
    table = tables(issuer, secret(issuer, WRITER)).get_table_client(name)
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
