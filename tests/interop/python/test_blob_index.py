"""Batches of blob requests, access tiers, index tags, and listings of parts of a container."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import ResourceModifiedError
from azure.storage.blob import (
    ContainerClient,
    ContainerSasPermissions,
    PartialBatchErrorException,
    RetentionPolicy,
    StandardBlobTier,
    StaticWebsite,
    generate_container_sas,
)
from conftest import fresh_name, raises


def fill(container, names, **options):
    for name in names:
        container.upload_blob(name, b"x", **options)


def names_in(container, **options):
    return [blob.name for blob in container.list_blobs(**options)]


def test_a_batch_deletes_many_blobs(container):
    names = [f"dir/{number:03} ä.txt" for number in range(256)]
    fill(container, [*names, "kept"])
    assert {part.status_code for part in container.delete_blobs(*names)} == {202}
    assert names_in(container) == ["kept"]


def test_a_batch_says_which_of_its_requests_failed(container):
    fill(container, ["a", "leased", "b"])
    container.get_blob_client("leased").acquire_lease()
    with pytest.raises(PartialBatchErrorException) as caught:
        container.delete_blobs("a", "missing", "leased", "b")
    parts = caught.value.parts
    assert [part.status_code for part in parts] == [202, 404, 412, 202]
    assert [part.headers.get("x-ms-error-code") for part in parts[1:3]] == ["BlobNotFound", "LeaseIdMissing"]
    assert names_in(container) == ["leased"]


def test_a_batch_is_authorized_by_the_signature_in_its_addresses(account, container):
    fill(container, ["a", "b"])
    expiry = datetime.now(timezone.utc) + timedelta(hours=1)
    for permission, statuses in ("rwl", [403, 403]), ("d", [202, 202]):
        sas = generate_container_sas(
            account.name,
            container.container_name,
            account_key=account.key,
            permission=ContainerSasPermissions.from_string(permission),
            expiry=expiry,
        )
        client = ContainerClient(account.blob_endpoint, container.container_name, credential=sas)
        parts = client.delete_blobs("a", "b", raise_on_any_failure=False)
        assert [part.status_code for part in parts] == statuses


def test_a_batch_sets_tiers(container):
    fill(container, ["a", "b"])
    parts = container.set_standard_blob_tier_blobs(StandardBlobTier.COOL, "a", "b", "missing", raise_on_any_failure=False)
    assert [part.status_code for part in parts] == [200, 200, 404]
    assert [blob.blob_tier for blob in container.list_blobs()] == ["Cool", "Cool"]


def test_tiers_are_kept_and_listed(container):
    blob = container.upload_blob("b", b"x")
    properties = blob.get_blob_properties()
    assert (properties.blob_tier, properties.blob_tier_inferred) == ("Hot", True)
    for tier in StandardBlobTier.COLD, StandardBlobTier.COOL, StandardBlobTier.HOT:
        blob.set_standard_blob_tier(tier)
        properties = blob.get_blob_properties()
        assert (properties.blob_tier, properties.blob_tier_inferred) == (tier, None)
        assert properties.blob_tier_change_time is not None
    container.upload_blob("cold", b"x", standard_blob_tier=StandardBlobTier.COLD)
    assert [blob.blob_tier for blob in container.list_blobs()] == ["Hot", "Cold"]


def test_an_archived_blob_must_be_rehydrated(container):
    blob = container.upload_blob("b", b"x", standard_blob_tier=StandardBlobTier.ARCHIVE)
    raises(409, "BlobArchived", blob.download_blob)
    raises(409, "BlobArchived", blob.upload_blob, b"y", overwrite=True)
    blob.set_standard_blob_tier(StandardBlobTier.HOT)
    properties = blob.get_blob_properties()
    assert (properties.blob_tier, properties.archive_status) == ("Archive", "rehydrate-pending-to-hot")
    [listed] = container.list_blobs()
    assert (listed.blob_tier, listed.archive_status) == ("Archive", "rehydrate-pending-to-hot")


def test_tags_are_kept_listed_and_counted(container):
    tags = {"Project": "a b", "date/1": "2026-07:+=_-."}
    blob = container.upload_blob("b", b"x", tags=tags)
    assert blob.get_blob_tags() == tags
    assert blob.get_blob_properties().tag_count == 2
    assert blob.download_blob().properties.tag_count == 2
    [listed] = container.list_blobs(include=["tags"])
    assert (listed.tags, listed.tag_count) == (tags, 2)
    blob.set_blob_tags({})
    assert blob.get_blob_tags() == {}
    raises(400, "TagsTooLarge", blob.set_blob_tags, {str(number): "" for number in range(11)})


def test_conditions_on_tags(container):
    blob = container.upload_blob("b", b"x", tags={"state": "new"})
    with pytest.raises(ResourceModifiedError):
        blob.download_blob(if_tags_match_condition="\"state\"='done'")
    assert blob.download_blob(if_tags_match_condition="\"state\"='new'").readall() == b"x"
    raises(412, "ConditionNotMet", blob.delete_blob, if_tags_match_condition="state='done'")
    blob.delete_blob(if_tags_match_condition="state<>'done'")


def test_blobs_are_found_by_their_tags(blobs, container):
    mark = fresh_name("m")
    for name in "abc":
        container.upload_blob(name, b"x", tags={"mark": mark, "name": name})
    pages = blobs.find_blobs_by_tags(f"mark='{mark}'", results_per_page=2).by_page()
    found = [[(blob.container_name, blob.name, blob.tags) for blob in page] for page in pages]
    expected = [(container.container_name, name, {"mark": mark}) for name in "abc"]
    assert found == [expected[:2], expected[2:]]
    assert [blob.name for blob in container.find_blobs_by_tags(f"mark='{mark}' AND name>'a'")] == ["b", "c"]


def test_listings_begin_and_end_where_they_are_told(container):
    fill(container, ["a/1", "a/2", "a/3", "b"])
    assert names_in(container, start_from="a/2") == ["a/2", "a/3", "b"]
    assert names_in(container, name_starts_with="a/", start_from="a/15") == ["a/2", "a/3"]
    pages = container.list_blobs(start_from="a/2", results_per_page=1).by_page()
    assert [[blob.name for blob in page] for page in pages] == [["a/2"], ["a/3"], ["b"]]


def test_metadata_that_is_not_there_is_an_empty_map(blobs, queues, container, queue):
    container.upload_blob("b", b"x")
    [blob] = container.list_blobs(include=["metadata"])
    assert blob.metadata == {}
    [found] = blobs.list_containers(name_starts_with=container.container_name, include_metadata=True)
    assert found.metadata == {}
    [found] = queues.list_queues(name_starts_with=queue.queue_name, include_metadata=True)
    assert found.metadata == {}


def test_soft_delete_is_refused_and_a_website_is_kept_as_a_property(account, blobs):
    if "127.0.0.1" not in account.host:
        pytest.skip("a storage account has soft delete")
    policy = RetentionPolicy(enabled=True, days=5)
    raises(400, "FeatureNotSupportedByEmulator", blobs.set_service_properties, delete_retention_policy=policy)
    blobs.set_service_properties(
        delete_retention_policy=RetentionPolicy(enabled=False),
        static_website=StaticWebsite(enabled=True, index_document="index.html", error_document404_path="404.html"),
    )
    kept = blobs.get_service_properties()["static_website"]
    assert (kept.enabled, kept.index_document, kept.error_document404_path) == (True, "index.html", "404.html")
    blobs.set_service_properties(static_website=StaticWebsite(enabled=False))
    assert not blobs.get_service_properties()["static_website"].enabled
