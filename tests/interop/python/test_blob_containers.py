"""Containers: made, listed and deleted, their metadata and policies, and the lists of what is in them."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import (
    AccessPolicy,
    BlobAnalyticsLogging,
    BlobPrefix,
    ContainerClient,
    ContainerSasPermissions,
    CorsRule,
    Metrics,
    PublicAccess,
    RetentionPolicy,
)

from conftest import code_of, fresh_name, raises

UTC = timezone.utc


def test_a_container_is_created_and_deleted(blobs):
    name = fresh_name("c")
    client = blobs.create_container(name, metadata={"kind": "inbox"})
    assert client.exists()
    properties = client.get_container_properties()
    assert (properties.name, properties.metadata) == (name, {"kind": "inbox"})
    assert (properties.lease.status, properties.lease.state) == ("unlocked", "available")
    raises(409, "ContainerAlreadyExists", blobs.create_container, name)
    client.delete_container()
    assert not client.exists()
    raises(404, "ContainerNotFound", client.get_container_properties)
    raises(404, "ContainerNotFound", client.delete_container)
    raises(404, "ContainerNotFound", client.list_blobs)


@pytest.mark.parametrize("name", ["UPPER", "under_score", "-head", "two--dashes"])
def test_a_bad_name_is_refused(blobs, name):
    raises(400, "InvalidResourceName", blobs.create_container, name)


def test_containers_are_listed_in_pages_with_metadata(blobs):
    head = fresh_name("c")
    names = [f"{head}-{number}" for number in range(5)]
    for number, name in enumerate(names):
        blobs.create_container(name, metadata={"number": str(number)})
    try:
        pages = blobs.list_containers(name_starts_with=head, include_metadata=True, results_per_page=2).by_page()
        found = [[(one.name, one.metadata) for one in page] for page in pages]
        assert [len(page) for page in found] == [2, 2, 1]
        assert sum(found, []) == [(name, {"number": str(number)}) for number, name in enumerate(names)]
        first = blobs.list_containers(name_starts_with=head, results_per_page=3).by_page()
        assert [one.name for one in next(first)] == names[:3]
        rest = blobs.list_containers(name_starts_with=head).by_page(first.continuation_token)
        assert [one.name for page in rest for one in page] == names[3:]
    finally:
        for name in names:
            blobs.delete_container(name)


def test_metadata_is_replaced_as_a_whole(container):
    before = container.get_container_properties()
    container.set_container_metadata({"one": "1"})
    after = container.get_container_properties()
    assert after.metadata == {"one": "1"}
    assert after.etag != before.etag
    container.set_container_metadata({})
    assert container.get_container_properties().metadata == {}
    raises(
        412,
        "ConditionNotMet",
        container.set_container_metadata,
        {"a": "b"},
        if_modified_since=after.last_modified + timedelta(hours=1),
    )


def test_policies_and_public_access_are_set_and_read(account, container):
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    policy = AccessPolicy(ContainerSasPermissions(read=True, list=True), start=start, expiry=start + timedelta(days=1))
    container.set_container_access_policy({"one": policy, "empty": AccessPolicy()}, public_access=PublicAccess.BLOB)
    found = container.get_container_access_policy()
    assert found["public_access"] == "blob"
    stored = {one.id: one.access_policy for one in found["signed_identifiers"]}
    assert set(stored) == {"one", "empty"}
    assert stored["one"].permission == "rl"
    assert stored["one"].start.startswith("2026-01-02T03:04:05")
    container.upload_blob("b", b"for all")
    with ContainerClient(account.blob_endpoint, container.container_name) as anyone:
        assert anyone.download_blob("b").readall() == b"for all"
        with pytest.raises(HttpResponseError) as caught:
            list(anyone.list_blobs())
        assert caught.value.status_code in (401, 403, 404)
    container.set_container_access_policy({})
    assert container.get_container_access_policy() == {"public_access": None, "signed_identifiers": []}


TREE = ["a", "dir/1", "dir/2", "dir/sub/3", "other/4", "z"]


@pytest.fixture
def tree(container):
    for name in TREE:
        container.upload_blob(name, name.encode(), metadata={"name": name.replace("/", "_")})
    return container


def test_blobs_are_listed_with_what_describes_them(tree):
    listed = {one.name: one for one in tree.list_blobs(include=["metadata"])}
    assert list(listed) == TREE
    one = listed["dir/1"]
    properties = tree.get_blob_client("dir/1").get_blob_properties()
    assert (one.size, one.etag, one.last_modified) == (5, properties.etag.strip('"'), properties.last_modified)
    assert (one.metadata, one.content_settings.content_md5) == ({"name": "dir_1"}, properties.content_settings.content_md5)
    assert (one.lease.status, one.lease.state) == ("unlocked", "available")
    assert one.creation_time == properties.creation_time
    assert [one.metadata for one in tree.list_blobs()] == [None] * 6 or all(not one.metadata for one in tree.list_blobs())


@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_lists_come_in_pages(tree, size):
    pages = [[one.name for one in page] for page in tree.list_blobs(results_per_page=size).by_page()]
    assert sum(pages, []) == TREE
    assert all(len(page) == size for page in pages[:-1])
    assert list(tree.list_blob_names(name_starts_with="dir/", results_per_page=size)) == ["dir/1", "dir/2", "dir/sub/3"]


@pytest.mark.parametrize("size", [1, 3, None])
def test_a_delimiter_makes_directories(tree, size):
    options = {} if size is None else {"results_per_page": size}
    top = [(one.name, isinstance(one, BlobPrefix)) for one in tree.walk_blobs(**options)]
    assert sorted(top) == [("a", False), ("dir/", True), ("other/", True), ("z", False)]
    below = [one.name for one in tree.walk_blobs("dir/", delimiter="/", **options)]
    assert sorted(below) == ["dir/1", "dir/2", "dir/sub/"]


def test_a_marker_that_is_none_is_refused(tree):
    with pytest.raises(HttpResponseError) as caught:
        list(tree.list_blobs().by_page("no marker"))
    assert caught.value.status_code == 400
    assert code_of(caught.value) in ("InvalidMarker", "InvalidQueryParameterValue", "OutOfRangeInput")


@pytest.fixture
def restored(blobs):
    """Puts the service's properties back to what a new account has."""
    yield
    off = RetentionPolicy(enabled=False)
    blobs.set_service_properties(
        analytics_logging=BlobAnalyticsLogging(read=False, write=False, delete=False, retention_policy=off),
        hour_metrics=Metrics(enabled=False, retention_policy=off),
        minute_metrics=Metrics(enabled=False, retention_policy=off),
        cors=[],
    )


def test_service_properties_are_set_and_read(blobs, restored):
    five = RetentionPolicy(enabled=True, days=5)
    blobs.set_service_properties(
        analytics_logging=BlobAnalyticsLogging(read=True, write=True, delete=True, retention_policy=five),
        hour_metrics=Metrics(enabled=True, include_apis=True, retention_policy=five),
        cors=[CorsRule(["https://a.example"], ["GET"], max_age_in_seconds=7)],
    )
    found = blobs.get_service_properties()
    assert (found["analytics_logging"].read, found["analytics_logging"].retention_policy.days) == (True, 5)
    assert (found["hour_metrics"].enabled, found["hour_metrics"].include_apis) == (True, True)
    assert [(rule.allowed_origins, rule.max_age_in_seconds) for rule in found["cors"]] == [("https://a.example", 7)]
