"""Blobs of blocks and of appends: written, read in ranges, described, copied, kept in snapshots, deleted."""

import base64
import hashlib
import io
from datetime import datetime, timedelta, timezone

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import (
    BlobBlock,
    BlobClient,
    BlobSasPermissions,
    BlobServiceClient,
    BlobType,
    ContainerClient,
    ContentSettings,
    generate_blob_sas,
)

from conftest import code_of, raises

HOUR = timedelta(hours=1)
MIB = 1024 * 1024


def pattern(length):
    """Bytes that show a wrong order or a lost piece."""
    return b"".join(number.to_bytes(4, "big") for number in range((length + 3) // 4))[:length]


@pytest.fixture
def blob(container):
    return container.get_blob_client("dir/a blob & more.txt")


@pytest.fixture
def in_small_pieces(account, container):
    """A client that stages, and downloads, pieces of 64 KiB."""
    with ContainerClient.from_connection_string(
        account.connection_string,
        container.container_name,
        max_single_put_size=64 * 1024,
        max_block_size=64 * 1024,
        max_single_get_size=64 * 1024,
        max_chunk_get_size=64 * 1024,
    ) as client:
        yield client


def test_a_blob_is_uploaded_downloaded_and_deleted(blob):
    written = blob.upload_blob(b"hello")
    downloaded = blob.download_blob()
    assert downloaded.readall() == b"hello"
    properties = downloaded.properties
    assert (properties.size, properties.blob_type, properties.etag) == (5, BlobType.BlockBlob, written["etag"])
    assert properties.last_modified == written["last_modified"]
    assert properties.content_settings.content_md5 == hashlib.md5(b"hello").digest()
    assert properties.content_settings.content_type == "application/octet-stream"
    assert blob.exists()
    blob.delete_blob()
    assert not blob.exists()
    raises(404, "BlobNotFound", blob.download_blob)
    raises(404, "BlobNotFound", blob.get_blob_properties)
    raises(404, "BlobNotFound", blob.delete_blob)


def test_an_upload_does_not_overwrite_unless_it_is_told_to(blob):
    blob.upload_blob(b"first")
    raises(409, "BlobAlreadyExists", blob.upload_blob, b"second")
    assert blob.download_blob().readall() == b"first"
    blob.upload_blob(b"third", overwrite=True)
    assert blob.download_blob().readall() == b"third"


@pytest.mark.parametrize("name", ["a b", "a%20b", "ž/ř?#[]", "a'b\"c", "a//b", "$root", "a+b=c"])
def test_names_of_all_kinds(container, name):
    container.upload_blob(name, name.encode())
    assert container.download_blob(name).readall() == name.encode()
    assert [one.name for one in container.list_blobs()] == [name]


def test_an_empty_blob(blob):
    blob.upload_blob(b"")
    assert blob.download_blob().readall() == b""
    assert blob.get_blob_properties().size == 0


def test_a_container_that_is_missing_is_named(blobs):
    missing = blobs.get_blob_client("is-not-there", "b")
    raises(404, "ContainerNotFound", missing.upload_blob, b"")
    raises(404, "ContainerNotFound", missing.download_blob)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_large_blob_is_staged_in_blocks_and_read_in_ranges(in_small_pieces, concurrency):
    content = pattern(MIB + 12345)
    client = in_small_pieces.upload_blob("large", io.BytesIO(content), max_concurrency=concurrency, metadata={"kind": "large"})
    committed, uncommitted = client.get_block_list("all")
    assert ([block.size for block in committed], uncommitted) == ([65536] * 16 + [12345], [])
    assert client.download_blob(max_concurrency=concurrency).readall() == content
    assert b"".join(client.download_blob().chunks()) == content
    sink = io.BytesIO()
    assert client.download_blob(max_concurrency=concurrency).readinto(sink) == len(content)
    assert sink.getvalue() == content
    assert client.get_blob_properties().metadata == {"kind": "large"}


def test_a_stream_of_unknown_length(in_small_pieces):
    client = in_small_pieces.upload_blob("stream", (bytes([number]) * 50_000 for number in range(5)))
    assert client.download_blob().readall() == b"".join(bytes([number]) * 50_000 for number in range(5))


def test_a_large_blob_in_one_request(blob):
    content = pattern(8 * MIB)
    blob.upload_blob(content)
    assert blob.download_blob().readall() == content


@pytest.mark.parametrize("offset, length, found", [(0, 3, b"abc"), (3, None, b"defghij"), (8, 100, b"ij"), (9, 1, b"j")])
def test_ranges(blob, offset, length, found):
    blob.upload_blob(b"abcdefghij")
    downloaded = blob.download_blob(offset=offset, length=length)
    assert downloaded.readall() == found
    assert downloaded.properties.content_settings.content_md5 == hashlib.md5(b"abcdefghij").digest()


def test_a_range_beyond_the_end_is_refused(blob):
    blob.upload_blob(b"abc")
    error = raises(416, "InvalidRange", blob.download_blob, offset=3, length=1)
    assert error.response.headers["Content-Range"] == "bytes */3"


def test_a_change_while_downloading_is_noticed(in_small_pieces):
    client = in_small_pieces.upload_blob("changed", pattern(200_000))
    downloaded = client.download_blob()
    client.upload_blob(pattern(200_000), overwrite=True)
    with pytest.raises(ResourceModifiedError):
        downloaded.readall()


def test_a_checksum_of_each_range_is_verified(in_small_pieces):
    content = pattern(150_000)
    client = in_small_pieces.upload_blob("checked", content, validate_content=True)
    assert client.download_blob(validate_content=True).readall() == content


def wrong(name):
    """A hook that makes the checksum sent with a request a wrong one."""

    def hook(request):
        request.http_request.headers[name] = base64.b64encode(b"0" * (8 if "crc" in name else 16)).decode()

    return hook


@pytest.mark.parametrize(
    "header, code, details",
    [
        ("Content-MD5", "Md5Mismatch", ("UserSpecifiedMd5", "ServerCalculatedMd5")),
        ("x-ms-content-crc64", "Crc64Mismatch", ("UserSpecifiedCrc", "ServerCalculatedCrc")),
    ],
)
def test_a_wrong_checksum_is_refused(blob, header, code, details):
    for call in (
        lambda: blob.upload_blob(b"x", raw_request_hook=wrong(header)),
        lambda: blob.stage_block("MQ==", b"x", raw_request_hook=wrong(header)),
    ):
        error = raises(400, code, call)
        assert all(f"<{name}>" in error.response.text() for name in details)
    assert not blob.exists()


def test_a_checksum_that_is_none_is_refused(blob):
    def broken(request):
        request.http_request.headers["Content-MD5"] = "bm90IGFuIG1kNQ=="

    raises(400, "InvalidMd5", blob.upload_blob, b"x", raw_request_hook=broken)


def test_the_answer_gives_the_checksum_that_was_not_sent(blob):
    seen = {}
    blob.upload_blob(b"123456789", raw_response_hook=lambda answer: seen.update(answer.http_response.headers))
    headers = {name.lower(): value for name, value in seen.items()}
    assert headers["content-md5"] == base64.b64encode(hashlib.md5(b"123456789").digest()).decode()
    # CRC-64/NVME of the usual check string, least significant byte first.
    assert headers["x-ms-content-crc64"] == base64.b64encode((0xAE8B14860A799888).to_bytes(8, "little")).decode()


def test_blocks_are_staged_and_committed_in_the_order_of_the_list(blob):
    for number in range(4):
        blob.stage_block(f"{number:03}", f"[{number}]".encode())
    committed, uncommitted = blob.get_block_list("all")
    assert (committed, len(uncommitted)) == ([], 4)
    assert not blob.exists()
    blob.commit_block_list(
        [BlobBlock("002"), BlobBlock("000")], metadata={"a": "b"}, content_settings=ContentSettings("text/plain")
    )
    assert blob.download_blob().readall() == b"[2][0]"
    committed, uncommitted = blob.get_block_list("all")
    assert ([block.id for block in committed], [block.size for block in committed]) == (["002", "000"], [3, 3])
    assert uncommitted == []
    properties = blob.get_blob_properties()
    assert (properties.metadata, properties.content_settings.content_type) == ({"a": "b"}, "text/plain")

    blob.stage_block("009", b"[9]")
    blob.commit_block_list([BlobBlock("000"), BlobBlock("009"), BlobBlock("000")])
    assert blob.download_blob().readall() == b"[0][9][0]"
    assert blob.get_blob_properties().metadata == {}


def test_block_lists_that_cannot_be(blob):
    blob.stage_block("001", b"x")
    raises(400, "InvalidBlockList", blob.commit_block_list, [BlobBlock("002")])
    raises(400, "InvalidBlobOrBlock", blob.stage_block, "a longer id", b"x")
    raises(404, "BlobNotFound", blob.get_blob_properties)


def test_a_blob_with_staged_blocks_only_is_listed_when_asked_for(container, blob):
    blob.stage_block("001", b"x")
    assert list(container.list_blobs()) == []
    assert [one.name for one in container.list_blobs(include=["uncommittedblobs"])] == [blob.blob_name]


def test_a_blob_is_appended_to(container):
    log = container.get_blob_client("log")
    log.create_append_blob(metadata={"a": "b"})
    first = log.append_block(b"one,")
    assert (first["blob_append_offset"], first["blob_committed_block_count"]) == ("0", 1)
    second = log.append_block(b"two,", appendpos_condition=4)
    assert (second["blob_append_offset"], second["blob_committed_block_count"]) == ("4", 2)
    raises(412, "AppendPositionConditionNotMet", log.append_block, b"x", appendpos_condition=4)
    raises(412, "MaxBlobSizeConditionNotMet", log.append_block, b"xx", maxsize_condition=9)
    log.append_block(b"2", maxsize_condition=9)
    assert log.download_blob().readall() == b"one,two,2"
    properties = log.get_blob_properties()
    assert (properties.blob_type, properties.append_blob_committed_block_count) == (BlobType.AppendBlob, 3)
    assert properties.metadata == {"a": "b"}


def test_an_upload_can_be_one_of_appends(container):
    log = container.get_blob_client("log")
    log.upload_blob(b"one,", blob_type=BlobType.AppendBlob)
    log.upload_blob(b"two,", blob_type=BlobType.AppendBlob)
    assert log.download_blob().readall() == b"one,two,"
    log.upload_blob(b"three,", blob_type=BlobType.AppendBlob, overwrite=True)
    assert log.download_blob().readall() == b"three,"


def test_an_append_under_a_wrong_checksum_appends_nothing(container):
    log = container.get_blob_client("log")
    log.create_append_blob()
    raises(400, "Md5Mismatch", log.append_block, b"x", raw_request_hook=wrong("Content-MD5"))
    assert log.get_blob_properties().size == 0


def test_a_sealed_blob_takes_no_more(container):
    log = container.get_blob_client("log")
    log.create_append_blob()
    log.append_block(b"x")
    assert log.seal_append_blob()["blob_sealed"]
    raises(409, "BlobIsSealed", log.append_block, b"x")


def test_an_operation_of_the_other_type_is_refused(container, blob):
    blob.upload_blob(b"x")
    raises(409, "InvalidBlobType", blob.append_block, b"x")
    log = container.get_blob_client("log")
    log.create_append_blob()
    raises(409, "InvalidBlobType", log.stage_block, "001", b"x")
    raises(404, "BlobNotFound", container.get_blob_client("none").append_block, b"x")


SETTINGS = {
    "content_type": "text/csv",
    "content_encoding": "identity",
    "content_language": "cs",
    "content_disposition": "attachment",
    "cache_control": "no-store",
}


def test_headers_are_set_with_the_upload_and_later(blob):
    blob.upload_blob(b"x", content_settings=ContentSettings(**SETTINGS))
    found = blob.get_blob_properties().content_settings
    assert {name: found[name] for name in SETTINGS} == SETTINGS
    # What is not said is cleared.
    blob.set_http_headers(ContentSettings(content_type="text/html"))
    found = blob.get_blob_properties().content_settings
    assert {name: found[name] for name in SETTINGS} == {**dict.fromkeys(SETTINGS), "content_type": "text/html"}
    assert found.content_md5 is None


def test_metadata_is_replaced_as_a_whole(blob):
    first = blob.upload_blob(b"x", metadata={"one": "1"})
    second = blob.set_blob_metadata({"two": "2"})
    assert second["etag"] != first["etag"]
    assert blob.get_blob_properties().metadata == {"two": "2"}
    blob.set_blob_metadata({})
    assert blob.get_blob_properties().metadata == {}
    assert blob.download_blob().readall() == b"x"


def test_metadata_names_keep_their_case(blob):
    blob.upload_blob(b"x", metadata={"UP": "UPval", "MixedCase": "1"})
    assert blob.get_blob_properties().metadata == {"UP": "UPval", "MixedCase": "1"}


def test_bad_metadata_is_refused(blob):
    raises(400, "InvalidMetadata", blob.upload_blob, b"x", metadata={"1-bad": "x"})
    raises(400, "MetadataTooLarge", blob.upload_blob, b"x", metadata={"large": "x" * 8192})


def test_a_snapshot_keeps_what_was(container, blob):
    blob.upload_blob(b"old", metadata={"a": "1"})
    taken = blob.create_snapshot()
    other = blob.create_snapshot(metadata={"b": "2"})
    blob.upload_blob(b"new", overwrite=True)
    kept = container.get_blob_client(blob.blob_name, snapshot=taken["snapshot"])
    assert kept.download_blob().readall() == b"old"
    assert (kept.get_blob_properties().snapshot, kept.get_blob_properties().metadata) == (taken["snapshot"], {"a": "1"})
    assert blob.download_blob().readall() == b"new"
    listed = [(one.snapshot, one.metadata) for one in container.list_blobs(include=["snapshots", "metadata"])]
    assert listed == [(taken["snapshot"], {"a": "1"}), (other["snapshot"], {"b": "2"}), (None, {})]
    raises(409, "SnapshotsPresent", blob.delete_blob)
    kept.delete_blob()
    raises(404, "BlobNotFound", kept.get_blob_properties)
    blob.delete_blob(delete_snapshots="only")
    assert [one.snapshot for one in container.list_blobs(include=["snapshots"])] == [None]
    blob.create_snapshot()
    blob.delete_blob(delete_snapshots="include")
    assert list(container.list_blobs(include=["snapshots"])) == []


def readable(account, blob):
    token = generate_blob_sas(
        account.name,
        blob.container_name,
        blob.blob_name,
        account_key=account.key,
        permission=BlobSasPermissions(read=True),
        expiry=datetime.now(timezone.utc) + HOUR,
    )
    return f"{blob.url}?{token}"


@pytest.mark.parametrize("sync", [False, True])
def test_a_blob_is_copied_within_the_account(account, container, blob, sync):
    blob.upload_blob(b"copied", metadata={"a": "1"}, content_settings=ContentSettings("text/csv"))
    target = container.get_blob_client("copy")
    source = readable(account, blob) if sync else blob.url
    copied = target.start_copy_from_url(source, requires_sync=True) if sync else target.start_copy_from_url(source)
    assert copied["copy_status"] == "success" and copied["copy_id"]
    assert target.download_blob().readall() == b"copied"
    properties = target.get_blob_properties()
    assert (properties.metadata, properties.content_settings.content_type) == ({"a": "1"}, "text/csv")
    assert (properties.copy.id, properties.copy.status) == (copied["copy_id"], "success")
    if not sync:
        assert properties.copy.progress == "6/6"
        assert properties.copy.source.startswith(blob.url)
        raises(409, "NoPendingCopyOperation", target.abort_copy, copied["copy_id"])
    target.start_copy_from_url(source, metadata={"b": "2"}, requires_sync=sync)
    assert target.get_blob_properties().metadata == {"b": "2"}


def test_copies_that_cannot_be(container, blob):
    written = blob.upload_blob(b"x")
    target = container.get_blob_client("copy")
    missing = container.get_blob_client("missing")
    with pytest.raises(ResourceNotFoundError) as caught:
        target.start_copy_from_url(missing.url)
    assert code_of(caught.value) in ("BlobNotFound", "CannotVerifyCopySource")
    raises(
        412,
        "SourceConditionNotMet",
        target.start_copy_from_url,
        blob.url,
        source_etag='"0x0"',
        source_match_condition=MatchConditions.IfNotModified,
    )
    target.start_copy_from_url(blob.url, source_etag=written["etag"], source_match_condition=MatchConditions.IfNotModified)
    raises(
        412,
        "TargetConditionNotMet",
        target.start_copy_from_url,
        blob.url,
        etag='"0x0"',
        match_condition=MatchConditions.IfNotModified,
    )


READS = {
    "download": lambda blob, **when: blob.download_blob(**when).readall(),
    "properties": lambda blob, **when: blob.get_blob_properties(**when),
}
WRITES = {
    "upload": lambda blob, **when: blob.upload_blob(b"new", overwrite=True, **when),
    "metadata": lambda blob, **when: blob.set_blob_metadata({"a": "b"}, **when),
    "headers": lambda blob, **when: blob.set_http_headers(ContentSettings("a/b"), **when),
    "block list": lambda blob, **when: blob.commit_block_list([], **when),
    "snapshot": lambda blob, **when: blob.create_snapshot(**when),
    "lease": lambda blob, **when: blob.acquire_lease(15, **when),
    "delete": lambda blob, **when: blob.delete_blob(**when),
}


def conditions(blob):
    """Each kind of condition: met, not met, and what a read says that does not meet it."""
    properties = blob.get_blob_properties()
    before, after = properties.last_modified - HOUR, properties.last_modified + HOUR
    same, other = MatchConditions.IfNotModified, MatchConditions.IfModified
    return [
        ({"etag": properties.etag, "match_condition": same}, {"etag": '"0x0"', "match_condition": same}, 412),
        ({"etag": '"0x0"', "match_condition": other}, {"etag": properties.etag, "match_condition": other}, 304),
        ({"if_modified_since": before}, {"if_modified_since": after}, 304),
        ({"if_unmodified_since": after}, {"if_unmodified_since": before}, 412),
    ]


@pytest.mark.parametrize("kind", range(4), ids=["if-match", "if-none-match", "modified since", "unmodified since"])
@pytest.mark.parametrize("operation", [*READS, *WRITES])
def test_conditions(blob, operation, kind):
    blob.upload_blob(b"x")
    met, unmet, status = conditions(blob)[kind]
    call = READS.get(operation) or WRITES[operation]
    with pytest.raises(HttpResponseError) as caught:
        call(blob, **unmet)
    expected = status if operation in READS else 412
    assert (caught.value.status_code, code_of(caught.value)) == (expected, "ConditionNotMet")
    assert blob.download_blob().readall() == b"x"
    call(blob, **met)


def test_anything_that_is_there_and_nothing_that_is_there(blob):
    raises(412, "ConditionNotMet", blob.upload_blob, b"x", overwrite=True, match_condition=MatchConditions.IfPresent)
    blob.upload_blob(b"x", match_condition=MatchConditions.IfMissing, overwrite=True)
    raises(409, "BlobAlreadyExists", blob.upload_blob, b"y", match_condition=MatchConditions.IfMissing, overwrite=True)
    blob.upload_blob(b"z", match_condition=MatchConditions.IfPresent, overwrite=True)
    assert blob.download_blob().readall() == b"z"


@pytest.mark.parametrize(
    "operation",
    [
        lambda blob: blob.create_page_blob(512),
        lambda blob: blob.upload_blob(b"x" * 512, blob_type=BlobType.PageBlob),
        lambda blob: blob.undelete_blob(),
        lambda blob: blob.set_legal_hold(True),
        lambda blob: blob.query_blob("select * from BlobStorage").readall(),
        lambda blob: blob.upload_page(b"x" * 512, 0, 512),
        lambda blob: list(blob.list_page_ranges()),
        lambda blob: blob.upload_blob_from_url(f"{blob.url}2"),
        lambda blob: blob.stage_block_from_url("001", f"{blob.url}2"),
        lambda blob: blob.upload_blob(b"y", overwrite=True, encryption_scope="scope"),
        lambda blob: blob.upload_blob(b"y", overwrite=True, legal_hold=True),
        lambda blob: blob.get_blob_properties(version_id="2026-01-01T00:00:00.0000000Z"),
    ],
)
def test_what_the_server_leaves_out_it_says_so(account, blob, operation):
    if "127.0.0.1" not in account.host:
        pytest.skip("a storage account has these")
    blob.upload_blob(b"x")
    raises(400, "FeatureNotSupportedByEmulator", operation, blob)
    assert blob.download_blob().readall() == b"x"


def test_an_account_says_what_it_is(blobs):
    information = blobs.get_account_information()
    assert information["account_kind"] in ("StorageV2", "BlobStorage", "Storage")
    assert information["sku_name"]


def test_the_secondary_gives_statistics_and_reads_only(account, container):
    container.upload_blob("b", b"x")
    secondary = account.secondary_of(account.blob_endpoint)
    host = secondary.split("/")[2]
    with BlobServiceClient(secondary, credential=account.key_credential, secondary_hostname=host) as client:
        assert client.get_service_stats()["geo_replication"]["status"] in ("live", "bootstrap", "unavailable")
        twin = client.get_blob_client(container.container_name, "b")
        if "127.0.0.1" in account.host:
            assert twin.download_blob().readall() == b"x"
        with pytest.raises(HttpResponseError) as caught:
            twin.upload_blob(b"y", overwrite=True)
        assert caught.value.status_code in (400, 403)


def test_a_wrong_key_is_refused(account):
    with BlobClient(
        account.blob_endpoint, "c", "b", credential={"account_name": account.name, "account_key": "bm90IHRoZSBrZXk="}
    ) as client:
        raises(403, "AuthenticationFailed", client.download_blob)
