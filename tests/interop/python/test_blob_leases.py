"""Leases of blobs and containers: every state that can be reached without waiting, and the codes of each refusal."""

import uuid

import pytest
from azure.storage.blob import BlobLeaseClient

from conftest import raises

A, B = str(uuid.uuid4()), str(uuid.uuid4())


@pytest.fixture
def blob(container):
    client = container.upload_blob("leased", b"x")
    yield client
    if client.get_blob_properties().lease.status == "locked":
        BlobLeaseClient(client).break_lease(0)


@pytest.fixture(params=["blob", "container"])
def thing(request, container):
    """What leases are of, with a reader of its state, and how operations name it in their codes."""
    if request.param == "blob":
        client = container.upload_blob("leased", b"x")
        yield client, lambda: client.get_blob_properties().lease
    else:
        yield container, lambda: container.get_container_properties().lease
    if container.get_container_properties().lease.status == "locked":
        BlobLeaseClient(container).break_lease(0)


def test_a_lease_is_acquired_renewed_changed_and_released(thing):
    client, state = thing
    lease = client.acquire_lease(15, lease_id=A)
    assert lease.id == A
    assert (state().status, state().state, state().duration) == ("locked", "leased", "fixed")
    lease.renew()
    lease.change(B)
    assert lease.id == B
    raises(409, "LeaseIdMismatchWithLeaseOperation", BlobLeaseClient(client, A).renew)
    raises(409, "LeaseIdMismatchWithLeaseOperation", BlobLeaseClient(client, A).release)
    lease.release()
    assert (state().status, state().state) == ("unlocked", "available")
    raises(409, "LeaseIdMismatchWithLeaseOperation", BlobLeaseClient(client, B).renew)


def test_a_second_lease_is_refused(thing):
    client, state = thing
    client.acquire_lease(-1, lease_id=A)
    assert state().duration == "infinite"
    raises(409, "LeaseAlreadyPresent", client.acquire_lease, 15, lease_id=B)
    client.acquire_lease(60, lease_id=A)
    assert state().duration == "fixed"


def test_a_broken_lease(thing):
    client, state = thing
    raises(409, "LeaseNotPresentWithLeaseOperation", BlobLeaseClient(client).break_lease)
    lease = client.acquire_lease(60, lease_id=A)
    assert 0 < lease.break_lease(20) <= 20
    assert (state().status, state().state) == ("locked", "breaking")
    raises(409, "LeaseIsBreakingAndCannotBeAcquired", client.acquire_lease, 15, lease_id=A)
    raises(409, "LeaseIsBreakingAndCannotBeChanged", lease.change, B)
    raises(409, "LeaseIsBrokenAndCannotBeRenewed", lease.renew)
    assert lease.break_lease(0) == 0
    assert (state().status, state().state) == ("unlocked", "broken")
    raises(409, "LeaseIsBrokenAndCannotBeRenewed", BlobLeaseClient(client, A).renew)
    assert client.acquire_lease(15, lease_id=B).id == B


def test_an_infinite_lease_breaks_at_once_unless_a_period_is_given(thing):
    client, state = thing
    assert client.acquire_lease().break_lease() == 0
    assert state().state == "broken"
    assert 25 < client.acquire_lease().break_lease(30) <= 30
    assert state().state == "breaking"


def test_a_fixed_lease_breaks_when_it_ends(thing):
    client, _ = thing
    assert 55 < client.acquire_lease(60).break_lease() <= 60


@pytest.mark.parametrize("duration", [14, 61, 0, -2])
def test_a_lease_lasts_15_to_60_seconds_or_forever(blob, duration):
    raises(400, "InvalidHeaderValue", blob.acquire_lease, duration)


def test_an_id_is_a_guid(blob):
    raises(400, "InvalidHeaderValue", blob.acquire_lease, 15, lease_id="none")


WRITES = {
    "upload": lambda blob, **lease: blob.upload_blob(b"new", overwrite=True, **lease),
    "metadata": lambda blob, **lease: blob.set_blob_metadata({"a": "b"}, **lease),
    "block": lambda blob, **lease: blob.stage_block("001", b"x", **lease),
    "block list": lambda blob, **lease: blob.commit_block_list([], **lease),
    "delete": lambda blob, **lease: blob.delete_blob(**lease),
}


@pytest.mark.parametrize("operation", WRITES)
def test_a_leased_blob_is_written_under_its_lease_only(container, operation):
    blob, write = container.upload_blob("leased", b"x"), WRITES[operation]
    raises(412, "LeaseNotPresentWithBlobOperation", write, blob, lease=A)
    lease = blob.acquire_lease(60, lease_id=A)
    raises(412, "LeaseIdMissing", write, blob)
    raises(412, "LeaseIdMismatchWithBlobOperation", write, blob, lease=B)
    assert blob.download_blob().readall() == b"x"
    assert blob.download_blob(lease=A).readall() == b"x"
    raises(412, "LeaseIdMismatchWithBlobOperation", blob.download_blob, lease=B)
    write(blob, lease=lease)


def test_a_lost_lease(blob):
    blob.acquire_lease(60, lease_id=A).break_lease(0)
    raises(412, "LeaseLost", blob.download_blob, lease=A)
    raises(412, "LeaseLost", blob.set_blob_metadata, {}, lease=A)
    blob.set_blob_metadata({"a": "b"})
    assert blob.get_blob_properties().lease.state == "available"


def test_a_lease_leaves_the_etag_alone(blob):
    before = blob.get_blob_properties()
    blob.acquire_lease(15)
    after = blob.get_blob_properties()
    assert (before.etag, before.last_modified) == (after.etag, after.last_modified)


def test_a_leased_container_is_deleted_under_its_lease_only(container):
    raises(412, "LeaseNotPresentWithContainerOperation", container.delete_container, lease=A)
    lease = container.acquire_lease(60, lease_id=A)
    raises(412, "LeaseIdMissing", container.delete_container)
    raises(412, "LeaseIdMismatchWithContainerOperation", container.delete_container, lease=B)
    raises(412, "LeaseIdMismatchWithContainerOperation", container.set_container_metadata, {}, lease=B)
    container.set_container_metadata({"a": "b"})
    container.upload_blob("free", b"x")
    lease.release()
