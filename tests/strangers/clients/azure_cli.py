"""The Azure CLI's `az storage`, each command as its page shows it."""

import json
import pathlib
import tempfile

from checks import CONNECTION_STRING, check, command, main

folder = pathlib.Path(tempfile.mkdtemp())
(folder / "up.txt").write_text("hello from the command line\n")


def az(*words):
    said = command("az", "storage", *words, "--connection-string", CONNECTION_STRING, "--output", "json", seconds=120)
    return json.loads(said) if said.strip() else None


@check
def container():
    assert az("container", "create", "--name", "cli")["created"]
    assert [it["name"] for it in az("container", "list", "--prefix", "cli")] == ["cli"]


@check
def blob():
    az("blob", "upload", "--container-name", "cli", "--name", "a b/ü.txt", "--file", folder / "up.txt")
    az("blob", "download", "--container-name", "cli", "--name", "a b/ü.txt", "--file", folder / "down.txt")
    assert (folder / "down.txt").read_bytes() == (folder / "up.txt").read_bytes()
    assert [it["name"] for it in az("blob", "list", "--container-name", "cli")] == ["a b/ü.txt"]


@check
def blob_metadata():
    where = ["--container-name", "cli", "--name", "a b/ü.txt"]
    az("blob", "metadata", "update", *where, "--metadata", "part2=b", "part_of=a", "chunk_count=1", "chunk1=2")
    assert az("blob", "metadata", "show", *where) == {"part2": "b", "part_of": "a", "chunk_count": "1", "chunk1": "2"}


@check
def blob_tier():
    where = ["--container-name", "cli", "--name", "a b/ü.txt"]
    az("blob", "set-tier", *where, "--tier", "Cool")
    assert az("blob", "show", *where)["properties"]["blobTier"] == "Cool"


@check
def blob_lease_and_snapshot():
    where = ["--container-name", "cli", "--name", "a b/ü.txt"]
    assert az("blob", "snapshot", *where)["snapshot"]
    lease = az("blob", "lease", "acquire", "--container-name", "cli", "--blob-name", "a b/ü.txt", "--lease-duration", "60")
    az("blob", "lease", "release", "--container-name", "cli", "--blob-name", "a b/ü.txt", "--lease-id", lease)


@check
def blob_sas():
    az("blob", "generate-sas", "--container-name", "cli", "--name", "x", "--permissions", "r", "--expiry", "2099-01-01T00:00Z")


@check
def blob_batches():
    for number in range(3):
        (folder / f"batch-{number}.txt").write_text(str(number))
    az("blob", "upload-batch", "--source", folder, "--destination", "cli", "--pattern", "batch-*")
    az("blob", "delete-batch", "--source", "cli", "--pattern", "batch-*")
    assert az("blob", "list", "--container-name", "cli", "--prefix", "batch") == []


@check
def queue():
    az("queue", "create", "--name", "cli")
    az("queue", "metadata", "update", "--name", "cli", "--metadata", "part2=b", "part_of=a")
    assert az("queue", "metadata", "show", "--name", "cli") == {"part2": "b", "part_of": "a"}
    assert [it["name"] for it in az("queue", "list", "--include-metadata")] == ["cli"]


@check
def message():
    az("message", "put", "--queue-name", "cli", "--content", "hello ü")
    assert az("message", "peek", "--queue-name", "cli")[0]["content"] == "hello ü"
    got = az("message", "get", "--queue-name", "cli")[0]
    az("message", "delete", "--queue-name", "cli", "--id", got["id"], "--pop-receipt", got["popReceipt"])


@check
def queue_policy():
    az("queue", "policy", "create", "--queue-name", "cli", "--name", "p", "--permissions", "r", "--expiry", "2099-01-01T00:00Z")
    assert "p" in az("queue", "policy", "list", "--queue-name", "cli")


@check
def queue_stats():
    assert az("queue", "stats")["geoReplication"]["status"]


@check
def table():
    assert az("table", "create", "--name", "cli")["created"]
    assert [it["name"] for it in az("table", "list")] == ["cli"]


@check
def entity():
    az("entity", "insert", "--table-name", "cli", "--entity", "PartitionKey=p", "RowKey=r", "Number=5", "Number@odata.type=Edm.Int32")
    assert az("entity", "show", "--table-name", "cli", "--partition-key", "p", "--row-key", "r")["Number"] == 5
    az("entity", "merge", "--table-name", "cli", "--entity", "PartitionKey=p", "RowKey=r", "Text=ü")
    assert len(az("entity", "query", "--table-name", "cli", "--filter", "PartitionKey eq 'p'")["items"]) == 1
    az("entity", "delete", "--table-name", "cli", "--partition-key", "p", "--row-key", "r")


@check
def table_policy():
    az("table", "policy", "create", "--table-name", "cli", "--name", "p", "--permissions", "r", "--expiry", "2099-01-01T00:00Z")
    assert "p" in az("table", "policy", "list", "--table-name", "cli")


@check
def table_stats():
    assert az("table", "stats")["geoReplication"]["status"]


@check
def cors():
    az("cors", "add", "--services", "bqt", "--methods", "GET", "PUT", "--origins", "https://example.com", "--max-age", "60")
    assert len(az("cors", "list", "--services", "bqt")) == 3
    az("cors", "clear", "--services", "bqt")
    assert az("cors", "list", "--services", "bqt") == []


@check
def logging_and_metrics():
    az("logging", "show", "--services", "bqt")
    az("metrics", "show", "--services", "bqt")


@check
def deletion():
    az("blob", "delete", "--container-name", "cli", "--name", "a b/ü.txt", "--delete-snapshots", "include")
    assert az("container", "delete", "--name", "cli")["deleted"]
    assert az("queue", "delete", "--name", "cli")["deleted"]
    assert az("table", "delete", "--name", "cli")["deleted"]


main()
