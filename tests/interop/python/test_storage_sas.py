"""Shared access signatures of queues and blobs: what a token opens, and that it opens nothing else."""

import base64
import json
from urllib.error import HTTPError
from urllib.request import urlopen
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.storage import blob as blob_sdk
from azure.storage import queue as queue_sdk
from azure.storage.blob import BlobServiceClient, generate_blob_sas, generate_container_sas
from azure.storage.queue import QueueClient, QueueServiceClient, generate_queue_sas

from conftest import code_of, fresh_name, raises

HOUR = timedelta(hours=1)
NO_PERMISSION = "AuthorizationPermissionMismatch"


def now():
    return datetime.now(timezone.utc)


@pytest.fixture
def with_queue_sas(account, queue):
    def client(permission=None, **values):
        if "policy_id" not in values:
            values.setdefault("expiry", now() + HOUR)
        token = generate_queue_sas(account.name, queue.queue_name, account.key, permission=permission, **values)
        return QueueClient(account.queue_endpoint, queue.queue_name, credential=token)

    return client


@pytest.fixture
def with_container_sas(account, container):
    def client(permission=None, blob=None, **values):
        """Of one blob if it is named, of the container otherwise; gives a client of the whole service."""
        if "policy_id" not in values:
            values.setdefault("expiry", now() + HOUR)
        values.update(account_key=account.key, permission=permission)
        if blob is None:
            token = generate_container_sas(account.name, container.container_name, **values)
        else:
            token = generate_blob_sas(account.name, container.container_name, blob, **values)
        return BlobServiceClient(account.blob_endpoint, credential=token).get_container_client(container.container_name)

    return client


QUEUE_OPERATIONS = {
    "peek": ("r", lambda queue, _: queue.peek_messages()),
    "properties": ("r", lambda queue, _: queue.get_queue_properties()),
    "send": ("a", lambda queue, _: queue.send_message("x")),
    "update": ("u", lambda queue, sent: queue.update_message(sent, visibility_timeout=1)),
    "receive": ("p", lambda queue, _: queue.receive_message()),
    "delete": ("p", lambda queue, sent: queue.delete_message(sent)),
}


@pytest.mark.parametrize("operation", QUEUE_OPERATIONS)
def test_a_queue_token_opens_what_it_says(queue, with_queue_sas, operation):
    sent = queue.send_message("x")
    needed, call = QUEUE_OPERATIONS[operation]
    raises(403, NO_PERMISSION, call, with_queue_sas("raup".replace(needed, "")), sent)
    call(with_queue_sas(needed), sent)


def test_a_queue_token_opens_no_other_queue(account, queues, with_queue_sas):
    other = queues.create_queue(fresh_name("q"))
    token = with_queue_sas("raup").url.split("?")[1]
    with QueueClient(account.queue_endpoint, other.queue_name, credential=token) as client:
        raises(403, "AuthenticationFailed", client.peek_messages)
    other.delete_queue()


@pytest.mark.parametrize("more", ["sp=raup", "SP=raup", "sig=x"])
def test_a_token_with_a_second_parameter_is_refused(account, queue, more):
    token = generate_queue_sas(account.name, queue.queue_name, account.key, permission="r", expiry=now() + HOUR)
    # Sent by hand, because the library drops what is repeated.
    address = f"{account.queue_endpoint}/{queue.queue_name}/messages?peekonly=true&{token}"
    assert urlopen(address).status == 200
    with pytest.raises(HTTPError) as caught:
        urlopen(f"{address}&{more}")
    assert caught.value.code == 403
    assert caught.value.headers["x-ms-error-code"] == "AuthenticationFailed"


def test_a_queue_token_of_a_policy(queue, with_queue_sas):
    client = with_queue_sas(policy_id="one")
    raises(403, "AuthenticationFailed", client.peek_messages)
    queue.set_queue_access_policy({"one": queue_sdk.AccessPolicy("r", expiry=now() + HOUR)})
    assert client.peek_messages() == []
    raises(403, NO_PERMISSION, client.send_message, "x")
    queue.set_queue_access_policy({})
    raises(403, "AuthenticationFailed", client.peek_messages)


@pytest.mark.parametrize(
    "times", [{"expiry": -HOUR}, {"start": HOUR, "expiry": 2 * HOUR}], ids=["expired", "not yet"]
)
def test_a_token_is_good_in_its_time_only(container, with_queue_sas, with_container_sas, times):
    times = {name: now() + value for name, value in times.items()}
    raises(403, "AuthenticationFailed", with_queue_sas("r", **times).peek_messages)
    raises(403, "AuthenticationFailed", with_container_sas("l", **times).list_blobs)


def test_a_token_is_good_from_its_addresses_only(with_queue_sas, with_container_sas):
    elsewhere = "203.0.113.1"
    raises(403, "AuthorizationSourceIPMismatch", with_queue_sas("r", ip=elsewhere).peek_messages)
    raises(403, "AuthorizationSourceIPMismatch", with_container_sas("l", ip=elsewhere).list_blobs)


def test_a_token_for_https_is_refused_over_http(account, with_queue_sas, with_container_sas):
    if not account.blob_endpoint.startswith("http:"):
        pytest.skip("the account is reached over https")
    raises(403, "AuthorizationProtocolMismatch", with_queue_sas("r", protocol="https").peek_messages)
    raises(403, "AuthorizationProtocolMismatch", with_container_sas("l", protocol="https").list_blobs)


BLOB_OPERATIONS = {
    "read": ("r", lambda container: container.download_blob("b").readall()),
    "append": ("a", lambda container: container.get_blob_client("log").append_block(b"x")),
    "create": ("c", lambda container: container.upload_blob("new", b"x")),
    "write": ("w", lambda container: container.upload_blob("b", b"y", overwrite=True)),
    "delete": ("d", lambda container: container.delete_blob("b")),
    "list": ("l", lambda container: list(container.list_blobs())),
}


@pytest.mark.parametrize("operation", BLOB_OPERATIONS)
def test_a_container_token_opens_what_it_says(container, with_container_sas, operation):
    container.upload_blob("b", b"x")
    container.get_blob_client("log").create_append_blob()
    needed, call = BLOB_OPERATIONS[operation]
    # Writing includes appending and creating.
    others = "racwdl".replace(needed, "").replace("w" if needed in "ac" else "-", "")
    raises(403, NO_PERMISSION, call, with_container_sas(others))
    call(with_container_sas(needed))


def test_a_blob_token_opens_that_blob_only(container, with_container_sas):
    container.upload_blob("b", b"mine")
    container.upload_blob("other", b"not mine")
    client = with_container_sas("racwd", blob="b")
    assert client.download_blob("b").readall() == b"mine"
    raises(403, "AuthenticationFailed", client.download_blob, "other")
    with pytest.raises(HttpResponseError) as caught:
        list(client.list_blobs())
    assert caught.value.status_code == 403


def test_a_blob_token_can_name_headers_of_the_answer(container, with_container_sas):
    container.upload_blob("b", b"x")
    client = with_container_sas("r", blob="b", content_type="text/csv", cache_control="no-store")
    settings = client.get_blob_client("b").get_blob_properties().content_settings
    assert (settings.content_type, settings.cache_control) == ("text/csv", "no-store")


def test_a_container_token_of_a_policy(container, with_container_sas):
    client = with_container_sas(policy_id="one")
    raises(403, "AuthenticationFailed", client.list_blobs)
    container.set_container_access_policy({"one": blob_sdk.AccessPolicy("l", expiry=now() + HOUR)})
    assert list(client.list_blobs()) == []
    raises(403, NO_PERMISSION, client.upload_blob, "b", b"x")
    container.set_container_access_policy({})
    raises(403, "AuthenticationFailed", client.list_blobs)


def account_token(sdk, account, resources, permission, **values):
    return sdk.generate_account_sas(
        account.name,
        account.key,
        sdk.ResourceTypes.from_string(resources),
        sdk.AccountSasPermissions.from_string(permission),
        now() + HOUR,
        **values,
    )


def test_an_account_token_of_queues(account, queue):
    with QueueServiceClient(account.queue_endpoint, credential=account_token(queue_sdk, account, "so", "rla")) as client:
        assert queue.queue_name in [one.name for one in client.list_queues(name_starts_with=queue.queue_name)]
        inside = client.get_queue_client(queue.queue_name)
        inside.send_message("x")
        assert inside.peek_messages()[0].content == "x"
        raises(403, NO_PERMISSION, inside.receive_message)
        raises(403, "AuthorizationResourceTypeMismatch", inside.set_queue_metadata, {"a": "b"})


def test_an_account_token_of_blobs(account, container):
    container.upload_blob("b", b"x")
    with BlobServiceClient(account.blob_endpoint, credential=account_token(blob_sdk, account, "so", "rl")) as client:
        assert container.container_name in [one.name for one in client.list_containers(name_starts_with=container.container_name)]
        inside = client.get_container_client(container.container_name)
        assert inside.download_blob("b").readall() == b"x"
        raises(403, NO_PERMISSION, inside.delete_blob, "b")
        raises(403, "AuthorizationResourceTypeMismatch", inside.list_blobs)


def test_an_account_token_of_one_service_opens_no_other(account, container):
    token = account_token(queue_sdk, account, "sco", "rlwd")
    with BlobServiceClient(account.blob_endpoint, credential=token) as client:
        with pytest.raises(HttpResponseError) as caught:
            list(client.list_containers())
    assert (caught.value.status_code, code_of(caught.value)) == (403, "AuthorizationServiceMismatch")


def bearer():
    """A token that the server takes: it checks everything but who signed it."""

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    start, end = int((now() - HOUR).timestamp()), int((now() + HOUR).timestamp())
    claims = {"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/0/", "nbf": start, "exp": end}
    return f"Bearer {part({'alg': 'RS256'})}.{part(claims)}.c2lnbmF0dXJl"


def delegation_key(client, **values):
    """A key of the client's service; skips where tokens are not taken."""
    try:
        headers = {"Authorization": bearer()}
        return client.get_user_delegation_key(start=now() - HOUR, expiry=now() + HOUR, headers=headers, **values)
    except HttpResponseError as refused:
        if code_of(refused) in ("AuthenticationFailed", "InvalidAuthenticationInfo"):
            pytest.skip("the account rejects unsigned tokens")
        raise


def test_a_user_delegation_key_signs_for_its_queue(account, queue):
    # The library makes no client of a queue service without a credential, and takes a token over https alone.
    service = QueueServiceClient(account.queue_endpoint, credential=AzureSasCredential("sv=2026-02-06&sig=none"))
    tenant = "aaaaaaaa-0000-0000-0000-000000000000"
    for values in [{}, {"delegated_user_tid": tenant}]:
        key = delegation_key(service, **values)
        assert (key.signed_service, key.signed_delegated_user_tid) == ("q", values.get("delegated_user_tid"))
        signed = {"permission": "a", "expiry": now() + HOUR, "user_delegation_key": key}
        token = generate_queue_sas(account.name, queue.queue_name, **signed)
        client = QueueClient(account.queue_endpoint, queue.queue_name, credential=token)
        client.send_message("x")
        raises(403, NO_PERMISSION, client.peek_messages)
        with QueueClient(account.queue_endpoint, queue.queue_name, credential=token.replace("sp=a", "sp=r")) as other:
            raises(403, "AuthenticationFailed", other.peek_messages)
    assert [message.content for message in queue.peek_messages(5)] == ["x", "x"]
