"""Queues: made, listed and deleted, their metadata, policies, service properties and statistics."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.queue import (
    AccessPolicy,
    CorsRule,
    Metrics,
    QueueAnalyticsLogging,
    QueueClient,
    QueueSasPermissions,
    QueueServiceClient,
    RetentionPolicy,
)

from conftest import code_of, fresh_name, raises

UTC = timezone.utc


def test_a_queue_is_created_and_deleted(queues):
    name = fresh_name("q")
    client = queues.create_queue(name)
    assert [one.name for one in queues.list_queues(name_starts_with=name)] == [name]
    client.delete_queue()
    assert [one.name for one in queues.list_queues(name_starts_with=name)] == []
    with pytest.raises(ResourceNotFoundError) as caught:
        client.get_queue_properties()
    assert code_of(caught.value) == "QueueNotFound"
    raises(404, "QueueNotFound", client.delete_queue)


def test_creating_a_queue_again_is_a_success_with_the_same_metadata_only(queue):
    with pytest.raises(ResourceExistsError) as caught:
        queue.create_queue()
    # The service says 204, of which this SDK makes an error of its own.
    assert caught.value.status_code == 204
    raises(409, "QueueAlreadyExists", queue.create_queue, metadata={"other": "1"})


@pytest.mark.parametrize("name", ["UPPER", "under_score", "-head", "tail-", "two--dashes"])
def test_a_bad_name_is_refused(queues, name):
    assert raises(400, "InvalidResourceName", queues.create_queue, name)


@pytest.mark.parametrize("name", ["ab", "a" * 64])
def test_a_name_of_bad_length_is_refused(queues, name):
    raises(400, "OutOfRangeInput", queues.create_queue, name)


def test_queues_are_listed_in_pages_with_metadata(queues):
    head = fresh_name("q")
    names = [f"{head}-{number}" for number in range(5)]
    for number, name in enumerate(names):
        queues.create_queue(name, metadata={"number": str(number)})
    try:
        pages = queues.list_queues(name_starts_with=head, include_metadata=True, results_per_page=2).by_page()
        found = [[(one.name, one.metadata) for one in page] for page in pages]
        assert [len(page) for page in found] == [2, 2, 1]
        assert sum(found, []) == [(name, {"number": str(number)}) for number, name in enumerate(names)]

        first = queues.list_queues(name_starts_with=head, results_per_page=3).by_page()
        assert [(one.name, one.metadata) for one in next(first)] == [(name, None) for name in names[:3]]
        rest = queues.list_queues(name_starts_with=head).by_page(first.continuation_token)
        assert [one.name for page in rest for one in page] == names[3:]
    finally:
        for name in names:
            queues.delete_queue(name)


def test_too_large_a_page_is_refused(queues):
    raises(400, "OutOfRangeQueryParameterValue", queues.list_queues, results_per_page=5001)


def test_metadata_is_replaced_as_a_whole(queue):
    queue.set_queue_metadata({"one": "1", "two": "two words"})
    assert queue.get_queue_properties().metadata == {"one": "1", "two": "two words"}
    queue.set_queue_metadata({"three": "3"})
    assert queue.get_queue_properties().metadata == {"three": "3"}
    queue.set_queue_metadata({})
    assert queue.get_queue_properties().metadata == {}


def test_metadata_names_keep_their_case(queue):
    queue.set_queue_metadata({"UP": "UPval", "MixedCase": "1"})
    assert queue.get_queue_properties().metadata == {"UP": "UPval", "MixedCase": "1"}


def test_metadata_is_given_when_the_queue_is_made(queues):
    client = queues.create_queue(fresh_name("q"), metadata={"kind": "inbox"})
    assert client.get_queue_properties().metadata == {"kind": "inbox"}
    client.delete_queue()


def test_metadata_names_are_identifiers(queue):
    raises(400, "InvalidMetadata", queue.set_queue_metadata, {"1-bad": "x"})


def test_policies_are_set_read_and_removed(queue):
    assert queue.get_queue_access_policy() == {}
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    policy = AccessPolicy(permission=QueueSasPermissions(read=True, process=True), start=start, expiry=start + timedelta(days=1))
    queue.set_queue_access_policy({"one": policy, "empty": AccessPolicy()})
    stored = queue.get_queue_access_policy()
    assert set(stored) == {"one", "empty"}
    assert set(stored["one"].permission) == set("rp")
    assert stored["one"].start.startswith("2026-01-02T03:04:05")
    assert stored["one"].expiry.startswith("2026-01-03T03:04:05")
    queue.set_queue_access_policy({})
    assert queue.get_queue_access_policy() == {}


def test_a_sixth_policy_is_refused(queue):
    with pytest.raises((ValueError, HttpResponseError)) as caught:
        queue.set_queue_access_policy({str(number): AccessPolicy() for number in range(6)})
    if isinstance(caught.value, HttpResponseError):
        assert (caught.value.status_code, code_of(caught.value)) == (400, "InvalidXmlDocument")
    assert queue.get_queue_access_policy() == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.get_queue_properties(),
        lambda queue: queue.set_queue_metadata({"a": "b"}),
        lambda queue: queue.get_queue_access_policy(),
        lambda queue: queue.set_queue_access_policy({}),
        lambda queue: queue.send_message("x"),
        lambda queue: queue.receive_message(),
        lambda queue: queue.peek_messages(),
        lambda queue: queue.clear_messages(),
        lambda queue: queue.delete_queue(),
    ],
)
def test_a_missing_queue_says_so_on_every_call(queues, call):
    raises(404, "QueueNotFound", call, queues.get_queue_client(fresh_name("q")))


@pytest.fixture
def restored(queues):
    """Puts the service's properties back to what a new account has."""
    yield
    off = RetentionPolicy(enabled=False)
    queues.set_service_properties(
        analytics_logging=QueueAnalyticsLogging(read=False, write=False, delete=False, retention_policy=off),
        hour_metrics=Metrics(enabled=False, retention_policy=off),
        minute_metrics=Metrics(enabled=False, retention_policy=off),
        cors=[],
    )


def test_service_properties_are_set_and_read(queues, restored):
    five = RetentionPolicy(enabled=True, days=5)
    queues.set_service_properties(
        analytics_logging=QueueAnalyticsLogging(read=True, write=True, delete=True, retention_policy=five),
        hour_metrics=Metrics(enabled=True, include_apis=True, retention_policy=five),
        minute_metrics=Metrics(enabled=True, include_apis=False, retention_policy=five),
    )
    queues.set_service_properties(cors=[CorsRule(["https://a.example"], ["GET", "PUT"], allowed_headers=["x-*"], max_age_in_seconds=7)])
    found = queues.get_service_properties()
    logging = found["analytics_logging"]
    assert (logging.read, logging.write, logging.delete, logging.retention_policy.days) == (True, True, True, 5)
    assert (found["hour_metrics"].enabled, found["hour_metrics"].include_apis) == (True, True)
    assert (found["minute_metrics"].enabled, found["minute_metrics"].include_apis) == (True, False)
    [rule] = found["cors"]
    assert (rule.allowed_origins, rule.allowed_methods) == ("https://a.example", "GET,PUT")
    assert (rule.allowed_headers, rule.max_age_in_seconds) == ("x-*", 7)


def test_the_secondary_gives_statistics(account):
    secondary = account.secondary_of(account.queue_endpoint)
    host = secondary.split("/")[2]
    with QueueServiceClient(secondary, credential=account.key_credential, secondary_hostname=host) as client:
        replication = client.get_service_stats()["geo_replication"]
    assert replication["status"] in ("live", "bootstrap", "unavailable")


def test_a_wrong_key_is_refused(account):
    with QueueClient(
        account.queue_endpoint, "aqueue", credential={"account_name": account.name, "account_key": "bm90IHRoZSBrZXk="}
    ) as client:
        with pytest.raises(HttpResponseError) as caught:
            client.get_queue_properties()
    assert (caught.value.status_code, code_of(caught.value)) == (403, "AuthenticationFailed")
