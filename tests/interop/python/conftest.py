"""What every test starts from: a connection string, service clients, a table, queue or container of its own.

The suite talks to whatever ROWKEY_CONNECTION_STRING names, so the same tests judge this repository's
server, the Azurite emulator and a storage account. They demand what the service does.
"""

import os
import re
import uuid

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.core.utils import parse_connection_string
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient


class Account:
    """The account under test, taken apart as far as tests need it."""

    def __init__(self, connection_string):
        parts = parse_connection_string(connection_string)
        self.connection_string = connection_string
        self.name = parts["accountname"]
        self.key = parts["accountkey"]
        self.endpoint, self.queue_endpoint, self.blob_endpoint = (
            (parts.get(f"{kind}endpoint") or f"https://{self.name}.{kind}.core.windows.net").rstrip("/")
            for kind in ("table", "queue", "blob")
        )

    @property
    def credential(self):
        return AzureNamedKeyCredential(self.name, self.key)

    @property
    def key_credential(self):
        """What the queue and blob clients take; they need the name where the host does not say it."""
        return {"account_name": self.name, "account_key": self.key}

    @property
    def host(self):
        return self.endpoint.split("/")[2]

    @property
    def secondary_endpoint(self):
        return self.secondary_of(self.endpoint)

    def secondary_of(self, endpoint):
        """Path-style endpoints mark the secondary in the account segment, others in the host name."""
        if endpoint.endswith(f"/{self.name}"):
            return f"{endpoint}-secondary"
        return endpoint.replace(self.name, f"{self.name}-secondary", 1)


@pytest.fixture(scope="session")
def account():
    connection_string = os.environ.get("ROWKEY_CONNECTION_STRING")
    if not connection_string:
        pytest.exit("ROWKEY_CONNECTION_STRING is not set; use tests/interop/run python", returncode=2)
    return Account(connection_string)


@pytest.fixture(scope="session")
def service(account):
    with TableServiceClient.from_connection_string(account.connection_string) as client:
        yield client


@pytest.fixture(scope="session")
def queues(account):
    with QueueServiceClient.from_connection_string(account.connection_string) as client:
        yield client


@pytest.fixture(scope="session")
def blobs(account):
    with BlobServiceClient.from_connection_string(account.connection_string) as client:
        yield client


def fresh_name(head="t"):
    """A name no other test has: a deleted table, queue or container blocks its name for a while."""
    return f"{head}{uuid.uuid4().hex[:20]}"


@pytest.fixture
def table_name():
    return fresh_name()


@pytest.fixture
def table(service, table_name):
    client = service.create_table(table_name)
    yield client
    service.delete_table(table_name)


@pytest.fixture
def queue(queues):
    client = queues.create_queue(fresh_name("q"))
    yield client
    client.delete_queue()


@pytest.fixture
def container(blobs):
    client = blobs.create_container(fresh_name("c"))
    yield client
    client.delete_container()


def code_of(error):
    """The service's error code, whichever way the SDK happened to keep it."""
    code = getattr(error, "error_code", None)
    if code is not None:
        return getattr(code, "value", code)
    code = error.response.headers.get("x-ms-error-code")
    if code:
        return code
    found = re.search(r'"code":"(\w+)"|code>(\w+)<', error.response.text())
    return found and (found[1] or found[2])


def entity(row="r", partition="p", **properties):
    return {"PartitionKey": partition, "RowKey": row, **properties}


def own(stored):
    """The properties of a stored entity without its keys."""
    return {name: value for name, value in stored.items() if name not in ("PartitionKey", "RowKey")}


def fill(table, rows, partition="p"):
    """Inserts `rows` in transactions of a hundred."""
    rows = list(rows)
    for start in range(0, len(rows), 100):
        table.submit_transaction(
            [("create", entity(row, partition, **properties)) for row, properties in rows[start : start + 100]]
        )


def raises(status, code, call, *arguments, **options):
    """Demands the failure with this status and code, of a page too, and gives it for further looks."""
    with pytest.raises(HttpResponseError) as caught:
        result = call(*arguments, **options)
        if hasattr(result, "by_page"):
            list(result)
    assert (caught.value.status_code, code_of(caught.value)) == (status, code)
    return caught.value
