"""Fills an emulator through the official SDKs, describes what it contains, and compares descriptions.

    contents.py write CONNECTION_STRING FILE     fills Azurite, and writes a description to FILE
    contents.py small CONNECTION_STRING          a little of each, for the files in crates/rowkey-emulator/tests/azurite
    contents.py compare CONNECTION_STRING FILE   fails if what the server contains differs from FILE

The description is what the SDKs read: a difference is one that a program would see.
"""

import base64
import datetime
import json
import re
import sys
import time
import uuid

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import EdmType, EntityProperty, TableAccessPolicy, TableServiceClient, UpdateMode
from azure.data.tables import TableCorsRule
from azure.storage.blob import (
    AccessPolicy,
    BlobBlock,
    BlobLeaseClient,
    BlobServiceClient,
    ContainerSasPermissions,
    ContentSettings,
    CorsRule,
    PublicAccess,
    StandardBlobTier,
)
from azure.storage.queue import AccessPolicy as QueuePolicy
from azure.storage.queue import QueueSasPermissions, QueueServiceClient

LISTED = ["snapshots", "uncommittedblobs", "metadata"]
UTC = datetime.timezone.utc
START = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EXPIRY = datetime.datetime(2036, 1, 2, 3, 4, 5, tzinfo=UTC)

# Azurite refuses rules without them.
HEADERS = {"allowed_headers": ["x-ms-meta-a"], "exposed_headers": ["x-ms-*"]}


def typed(value, edm):
    return EntityProperty(value, edm)


TYPES = {
    "NoText": "",
    "Text": "ä\u0001\"\\\U0001F600\r\n\t'",
    "LongText": "x" * 32767,
    "True": True,
    "False": False,
    "Int32Low": typed(-(2**31), EdmType.INT32),
    "Int32High": typed(2**31 - 1, EdmType.INT32),
    "Int64Low": typed(-(2**63), EdmType.INT64),
    "Int64High": typed(2**63 - 1, EdmType.INT64),
    "Int64Small": typed(7, EdmType.INT64),
    "Double": 3.5,
    "DoubleWhole": typed(4.0, EdmType.DOUBLE),
    "DoubleMax": 1.7976931348623157e308,
    "DoubleMin": 5e-324,
    "DoubleNegative": -0.1,
    "Infinite": float("inf"),
    "MinusInfinite": float("-inf"),
    "NotANumber": float("nan"),
    "Binary": bytes(range(256)),
    "NoBinary": b"",
    "LongBinary": b"\xff" * 65536,
    "Guid": uuid.UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
    "GuidZero": uuid.UUID(int=0),
    "Instant": datetime.datetime(2026, 2, 28, 23, 59, 59, 123456, tzinfo=UTC),
    "InstantFirst": datetime.datetime(1601, 1, 1, tzinfo=UTC),
    "InstantLast": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "größe": "a name beyond ASCII",
    "_underscore": 1,
}

KEYS = [
    ("", ""),
    ("", "only a row key"),
    ("only a partition key", ""),
    ("with space", "it's"),
    ("ümläut", "日本語"),
    ("\U0001F600", "emoji"),
    ("per%cent", "plus+and&"),
    ("a=b;c,d", "(x) [y] {z}"),
    ('"quoted"', "<xml>"),
    ("k" * 512, "r" * 512),
    ("Case", "case"),
    ("case", "Case"),
    ("PartitionKey", "RowKey"),
]


def write_tables(connection):
    service = TableServiceClient.from_connection_string(connection)
    table = service.create_table("Types")
    table.create_entity({"PartitionKey": "p", "RowKey": "all", **TYPES})
    table.create_entity({"PartitionKey": "p", "RowKey": "none"})
    keys = service.create_table("Keys")
    for number, (partition, row) in enumerate(KEYS):
        keys.create_entity({"PartitionKey": partition, "RowKey": row, "Number": number})
    changed = service.create_table("changed9")
    for number in range(60):
        changed.create_entity({"PartitionKey": f"p{number % 3}", "RowKey": f"{number:03}", "A": number, "B": "x"})
    changed.upsert_entity({"PartitionKey": "p0", "RowKey": "000", "C": typed(5, EdmType.INT64)}, UpdateMode.MERGE)
    changed.upsert_entity({"PartitionKey": "p1", "RowKey": "001", "D": 1.0}, UpdateMode.REPLACE)
    changed.delete_entity("p2", "002")
    changed.submit_transaction(
        [
            ("create", {"PartitionKey": "t", "RowKey": "1", "V": 1}),
            ("upsert", {"PartitionKey": "t", "RowKey": "2", "V": 2}),
        ]
    )
    service.create_table("empty")
    service.create_table("deleted")
    service.delete_table("deleted")
    policy = TableAccessPolicy(start=START, expiry=EXPIRY, permission="raud")
    table.set_table_access_policy({"readers": policy, "all": TableAccessPolicy(start=START, expiry=EXPIRY, permission="r")})
    rule = TableCorsRule(["https://example.test"], ["GET", "PUT"], **HEADERS, max_age_in_seconds=9)
    service.set_service_properties(cors=[rule])


def write_queues(connection):
    service = QueueServiceClient.from_connection_string(connection)
    work = service.create_queue("work", metadata={"Team": "blue", "n": "1"})
    work.send_message("first")
    work.send_message("zweite \u00e4 \U0001F600 <&>")
    work.send_message("", time_to_live=-1)
    work.send_message("kept for a while", time_to_live=86400 * 30)
    work.send_message("later", visibility_timeout=86400)
    gone = work.send_message("deleted")
    work.delete_message(gone)
    big = service.create_queue("big")
    big.send_message("b" * 65536)
    policy = QueuePolicy(permission=QueueSasPermissions(read=True, process=True), start=START, expiry=EXPIRY)
    work.set_queue_access_policy({"workers": policy})
    held = service.create_queue("held")
    for number in range(3):
        held.send_message(f"held {number}")
    held.update_message(held.receive_message(visibility_timeout=60), visibility_timeout=0)
    taken = held.receive_message(visibility_timeout=3600)
    held.update_message(taken, visibility_timeout=7200, content="changed while it was held")
    service.create_queue("nothing")


def put_leases(service, container):
    blob = container.upload_blob("leased", b"leased")
    blob.acquire_lease(-1, "11111111-1111-1111-1111-111111111111")
    leased = service.create_container("leased")
    BlobLeaseClient(leased, "22222222-2222-2222-2222-222222222222").acquire(-1)
    broken = container.upload_blob("broken", b"broken")
    broken.acquire_lease(-1, "33333333-3333-3333-3333-333333333333").break_lease(0)


def write_blobs(connection):
    service = BlobServiceClient.from_connection_string(connection)
    public = service.create_container("public", metadata={"Owner": "me"}, public_access=PublicAccess.BLOB)
    policy = AccessPolicy(permission=ContainerSasPermissions(read=True, list=True), start=START, expiry=EXPIRY)
    public.set_container_access_policy({"readers": policy}, public_access=PublicAccess.CONTAINER)
    blobs = service.create_container("blobs")
    service.create_container("empty")
    settings = ContentSettings(
        content_type="text/plain; charset=utf-8",
        content_encoding="identity",
        content_language="de",
        content_disposition="inline",
        cache_control="no-cache",
    )
    block = blobs.upload_blob(
        "dir/block", "hello wörld", metadata={"One": "1"}, content_settings=settings, tags={"color": "red", "n": "2"}
    )
    block.create_snapshot()
    block.upload_blob(b"second version", overwrite=True, metadata={"two": "2"})
    time.sleep(0.01)
    block.create_snapshot(metadata={"of": "snapshot"})
    block.set_blob_metadata({"Three": "3"})
    blobs.upload_blob("empty", b"")
    for name in ["ä ö/日本.txt", "a%2Fb", "with space+plus&amp", "q?x=1#f", "UPPER", "upper", "dot.", "x" * 1024]:
        blobs.upload_blob(name, name.encode())
    blobs.upload_blob("large", bytes(range(256)) * 4096 * 5)
    parts = blobs.get_blob_client("of blocks")
    ids = [base64.b64encode(f"{number:05}".encode()).decode() for number in range(4)]
    for number, part in enumerate(ids):
        parts.stage_block(part, f"part {number} ".encode())
    parts.commit_block_list([BlobBlock(part) for part in ids[:3]])
    staged = base64.b64encode(b"00009").decode()
    parts.stage_block(staged, b"not committed")
    blobs.get_blob_client("only staged").stage_block(staged, b"never committed")
    cool = blobs.upload_blob("cool", b"cool")
    cool.set_standard_blob_tier(StandardBlobTier.COOL)
    blobs.upload_blob("archived", b"cold as ice").set_standard_blob_tier(StandardBlobTier.ARCHIVE)
    append = blobs.get_blob_client("append")
    append.create_append_blob(metadata={"Kind": "log"})
    for number in range(5):
        append.append_block(f"line {number}\n")
    sealed = blobs.get_blob_client("sealed")
    sealed.create_append_blob()
    sealed.append_block(b"the end")
    sealed.seal_append_blob()
    copy = blobs.get_blob_client("copy")
    copy.start_copy_from_url(block.url)
    page = blobs.get_blob_client("pages")
    page.create_page_blob(4096)
    page.upload_page(b"P" * 512, 1024, 512)
    page.create_snapshot()
    put_leases(service, blobs)
    service.create_container("gone")
    service.delete_container("gone")
    service.set_service_properties(cors=[CorsRule(["*"], ["GET"], **HEADERS, max_age_in_seconds=5)])


def write_small(connection):
    table = TableServiceClient.from_connection_string(connection).create_table("Types")
    short = {name: value for name, value in TYPES.items() if not name.startswith("Long")}
    table.create_entity({"PartitionKey": "p", "RowKey": "all", **short})
    table.create_entity({"PartitionKey": "", "RowKey": "\u65e5\u672c"})
    policy = TableAccessPolicy(start=START, expiry=EXPIRY, permission="raud")
    table.set_table_access_policy({"readers": policy})
    write_queues_small(connection)
    service = BlobServiceClient.from_connection_string(connection)
    blobs = service.create_container("blobs", metadata={"Owner": "me"}, public_access=PublicAccess.BLOB)
    block = blobs.upload_blob("block", "hello w\u00f6rld", metadata={"One": "1"}, tags={"color": "red"})
    block.create_snapshot()
    block.set_standard_blob_tier(StandardBlobTier.COOL)
    parts = blobs.get_blob_client("parts")
    ids = [base64.b64encode(f"{number}".encode()).decode() for number in range(3)]
    for part in ids:
        parts.stage_block(part, part.encode())
    parts.commit_block_list([BlobBlock(part) for part in ids[:2]])
    parts.stage_block(ids[2], b"staged")
    append = blobs.get_blob_client("append")
    append.create_append_blob()
    append.append_block(b"one ")
    append.append_block(b"two")
    append.seal_append_blob()
    page = blobs.get_blob_client("pages")
    page.create_page_blob(512)
    page.create_snapshot()
    held = blobs.upload_blob("held", b"held")
    held.acquire_lease(60, "11111111-1111-1111-1111-111111111111")
    breaking = blobs.upload_blob("breaking", b"breaking")
    breaking.acquire_lease(-1, "22222222-2222-2222-2222-222222222222").break_lease(60)
    rule = CorsRule(["https://a.test", "https://b.test"], ["GET", "PUT"], **HEADERS, max_age_in_seconds=5)
    service.set_service_properties(cors=[rule])


def write_queues_small(connection):
    work = QueueServiceClient.from_connection_string(connection).create_queue("work", metadata={"Team": "blue"})
    work.send_message("first \u00e4", time_to_live=-1)
    work.send_message("later", visibility_timeout=86400, time_to_live=-1)
    taken = work.receive_message(visibility_timeout=3600)
    work.update_message(taken, visibility_timeout=7200, content="changed")


def plain(value):
    """A value with its type, as text that is equal if and only if the values are."""
    if isinstance(value, EntityProperty) or (isinstance(value, tuple) and len(value) == 2):
        value, edm = value
        return f"{getattr(edm, 'value', edm)} {value!r}"
    tail = getattr(value, "tables_service_value", None)
    return f"{type(value).__name__} {instant(tail) if tail else repr(value)}"


def instant(text):
    """An instant without the zeros at the end of its fraction: Azurite keeps them, and Azure does not."""
    return re.sub(r"\.?0*Z", "Z", str(text)) if "." in str(text) else str(text)


def policies(found):
    return {
        name: policy and [instant(policy.start), instant(policy.expiry), policy.permission]
        for name, policy in found.items()
    }


def tables(connection):
    service = TableServiceClient.from_connection_string(connection)
    described = {}
    for item in service.list_tables():
        table = service.get_table_client(item.name)
        entities = []
        for entity in table.list_entities():
            values = {name: plain(value) for name, value in entity.items()}
            metadata = entity.metadata
            entities.append([values, str(metadata["timestamp"]), instant(metadata["etag"])])
        described[item.name] = {"entities": entities, "acl": policies(table.get_table_access_policy())}
    return described, cors(service.get_service_properties())


def cors(properties):
    def rule(found):
        fields = ["allowed_origins", "allowed_methods", "allowed_headers", "exposed_headers", "max_age_in_seconds"]
        return [getattr(found, field) for field in fields]

    return [rule(found) for found in properties["cors"]]


def queues(connection):
    service = QueueServiceClient.from_connection_string(connection)
    described = {}
    for item in service.list_queues(include_metadata=True):
        queue = service.get_queue_client(item.name)
        messages = [
            [message.id, message.content, str(message.inserted_on), str(message.expires_on), message.dequeue_count]
            for message in queue.peek_messages(32)
        ]
        described[item.name] = {
            "metadata": item.metadata,
            "visible": messages,
            "count": queue.get_queue_properties().approximate_message_count,
            "acl": policies(queue.get_queue_access_policy()),
        }
    return described, cors(service.get_service_properties())


def blob(container, item):
    client = container.get_blob_client(item.name, snapshot=item.snapshot)
    described = {"uncommitted": True, "name": item.name}
    try:
        found = client.get_blob_properties()
    except ResourceNotFoundError:
        return {**described, "blocks": blocks(client)}
    settings = found.content_settings
    described = {
        "name": item.name,
        "snapshot": item.snapshot,
        "type": str(found.blob_type),
        "size": found.size,
        "etag": found.etag,
        "modified": str(found.last_modified),
        "created": str(found.creation_time),
        "metadata": found.metadata,
        "tier": found.blob_tier,
        # Azurite says of a snapshot, which has none, that its lease is available.
        "lease": None if item.snapshot else [found.lease.status, found.lease.state, found.lease.duration],
        "settings": {name: str(value) for name, value in vars(settings).items()},
        "committed blocks": found.append_blob_committed_block_count,
        "sealed": bool(getattr(found, "is_append_blob_sealed", False)),
        "copy": [found.copy.status, found.copy.progress] if found.copy.id else None,
        "tag count": found.tag_count,
    }
    if "PAGE" not in described["type"].upper():
        described["tags"] = client.get_blob_tags()
    if "BLOCK" in described["type"].upper():
        described["blocks"] = blocks(client)
    try:
        described["content"] = base64.b64encode(client.download_blob().readall()).decode()
    except HttpResponseError as error:
        described["content"] = str(error.error_code)
    return described


def blocks(client):
    committed, uncommitted = client.get_block_list("all")
    return [[[block.id, block.size] for block in found] for found in (committed, uncommitted)]


def containers(connection):
    service = BlobServiceClient.from_connection_string(connection)
    described = {}
    for item in service.list_containers(include_metadata=True):
        container = service.get_container_client(item.name)
        acl = container.get_container_access_policy()
        found = container.get_container_properties()
        described[item.name] = {
            "metadata": item.metadata or {},
            "access": str(acl["public_access"]),
            "acl": policies({policy.id: policy.access_policy for policy in acl["signed_identifiers"]}),
            "lease": [found.lease.status, found.lease.state, found.lease.duration],
            "etag": found.etag,
            "modified": str(found.last_modified),
            # Azurite lists snapshots in another order.
            "blobs": [
                blob(container, item)
                for item in sorted(container.list_blobs(include=LISTED), key=lambda item: (item.name, item.snapshot or "~"))
            ],
        }
    return described, cors(service.get_service_properties())


def describe(connection):
    return {"tables": tables(connection), "queues": queues(connection), "blobs": containers(connection)}


def differences(expected, found, path=""):
    """Each place at which two descriptions differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted({*expected, *found}):
            yield from differences(expected.get(name), found.get(name), f"{path}/{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for at, (one, other) in enumerate(zip(expected, found)):
            yield from differences(one, other, f"{path}/{at}")
    elif expected != found:
        yield f"{path}: {str(expected)[:200]} in Azurite, {str(found)[:200]} here"


def use(connection, expected):
    """Changes what was taken over under the ETags and leases of Azurite."""
    table = TableServiceClient.from_connection_string(connection).get_table_client("changed9")
    entity = table.get_entity("p0", "003")
    etag = next(found[2] for found in expected["tables"][0]["changed9"]["entities"] if "'003'" in found[0]["RowKey"])
    table.update_entity({**entity, "A": 4}, etag=etag, match_condition=MatchConditions.IfNotModified)
    container = BlobServiceClient.from_connection_string(connection).get_container_client("blobs")
    leased = container.get_blob_client("leased")
    try:
        leased.delete_blob()
        raise AssertionError("a leased blob was deleted without its lease")
    except HttpResponseError as error:
        assert error.error_code == "LeaseIdMissing", error
    leased.delete_blob(lease="11111111-1111-1111-1111-111111111111")
    parts = container.get_blob_client("only staged")
    parts.commit_block_list([BlobBlock(base64.b64encode(b"00009").decode())])
    assert parts.download_blob().readall() == b"never committed"
    queue = QueueServiceClient.from_connection_string(connection).get_queue_client("work")
    queue.delete_message(queue.receive_message())


def without_pages(description):
    """The same without page blobs, which the server does not have."""
    for container in description["blobs"][0].values():
        container["blobs"] = [blob for blob in container["blobs"] if "PAGE" not in blob.get("type", "").upper()]
    return description


def main():
    task, connection, *path = sys.argv[1:]
    if task == "small":
        write_small(connection)
        return
    (path,) = path
    if task == "write":
        write_tables(connection)
        write_queues(connection)
        write_blobs(connection)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(describe(connection), file, indent=1)
        return
    with open(path, encoding="utf-8") as file:
        expected = without_pages(json.load(file))
    # What JSON has no form for is compared as JSON has it.
    found = json.loads(json.dumps(describe(connection)))
    wrong = list(differences(expected, found))
    use(connection, expected)
    for line in wrong:
        print(line)
    count = sum(len(table["entities"]) for table in expected["tables"][0].values())
    blob_count = sum(len(container["blobs"]) for container in expected["blobs"][0].values())
    print(f"{count} entities and {blob_count} blobs compared, {len(wrong)} differences")
    if wrong or count < 70 or blob_count < 20:
        sys.exit(1)


if __name__ == "__main__":
    main()
