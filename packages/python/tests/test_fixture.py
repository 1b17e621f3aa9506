"""What the fixtures of pytest give each test, after tests that leave traces."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

#: Runs tests whose fixture was used before, and after, by others.
HEAD = """
import datetime
import pytest

addresses = set()

@pytest.fixture(autouse=True)
def same_address(rowkey_server):
    addresses.add(rowkey_server.connection_string)
    yield
    assert len(addresses) == 1
"""


def passes(pytester: pytest.Pytester, passed: int, tests: str, flags: str = "[]") -> None:
    pytester.makeconftest(
        f"""
        import pytest

        @pytest.fixture(scope="session")
        def rowkey_server_flags():
            return {flags}
        """
    )
    pytester.makepyfile(HEAD + tests)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly").assert_outcomes(passed=passed)


def test_forks_and_snapshots_of_earlier_tests_end(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        2,
        """
def test_one(rowkey_server):
    rowkey_server.fork()
    rowkey_server.snapshot()

def test_two(rowkey_server):
    assert rowkey_server.control("GET", "/v1/forks")["forks"] == []
    assert rowkey_server.control("GET", "/v1/snapshots")["snapshots"] == []
""",
    )


def test_identities_are_those_of_the_start(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        4,
        """
import json
import urllib.error
import urllib.parse
import urllib.request

PUBLISHED = "22222222-2222-2222-2222-222222222222"

def status(server, secret):
    form = {
        "grant_type": "client_credentials",
        "scope": "https://storage.azure.com/.default",
        "client_id": PUBLISHED,
        "client_secret": secret,
    }
    address = f"{server.authority}/11111111-1111-1111-1111-111111111111/oauth2/v2.0/token"
    try:
        return urllib.request.urlopen(address, urllib.parse.urlencode(form).encode()).status
    except urllib.error.HTTPError as error:
        return error.code

def as_at_the_start(server):
    identities = server.control("GET", "/v1/identities")["identities"]
    assert [one["kind"] for one in identities] == ["application", "managedIdentity"]
    assert status(server, "rowkey-development-secret") == 200

def test_one(rowkey_server):
    as_at_the_start(rowkey_server)
    rowkey_server.control("DELETE", f"/v1/identities/{PUBLISHED}")

def test_two(rowkey_server):
    as_at_the_start(rowkey_server)
    # All but the secret stays, and that is not shown.
    [application, _] = rowkey_server.control("GET", "/v1/identities")["identities"]
    rowkey_server.control("POST", "/v1/identities", application | {"secret": "another"})
    assert status(rowkey_server, "another") == 200

def test_three(rowkey_server):
    as_at_the_start(rowkey_server)
    # Without this package.
    address = f"{rowkey_server.control_endpoint}/v1/identities/{PUBLISHED}"
    urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).close()

def test_four(rowkey_server):
    as_at_the_start(rowkey_server)
""",
        flags='["--oauth", "issue"]',
    )


def test_a_clock_that_moved_a_little_is_seen(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        4,
        """
started = []
clocks = []

def test_one(rowkey_server):
    started.append(rowkey_server._program)
    clocks.append(rowkey_server.clock)

def test_two(rowkey_server):
    # As it was: nothing has moved.
    assert rowkey_server._program is started[-1]
    rowkey_server.clock.advance(datetime.timedelta(milliseconds=500))

def test_three(rowkey_server):
    assert rowkey_server._program is not started[-1]
    started.append(rowkey_server._program)
    # A clock that was kept over the restart.
    clocks[0].freeze()
    clocks[0].follow()

def test_four(rowkey_server):
    assert rowkey_server._program is not started[-1]
""",
    )


@pytest.mark.parametrize(
    "end",
    [
        'server.control("POST", "/v1/shutdown")',
        "server._program._process.kill()",
        "server.close()",
    ],
)
def test_a_server_that_a_test_ended_starts_again(pytester: pytest.Pytester, end: str) -> None:
    passes(
        pytester,
        2,
        f"""
def test_one(rowkey_server):
    server = rowkey_server
    {end}

def test_two(rowkey_server):
    assert not rowkey_server.clock.read().frozen
    assert rowkey_server.control("GET", "/v1/data/table/devstoreaccount1/Tables")["value"] == []
""",
    )


def test_all_servers_have_the_flags(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        1,
        """
def test_one(rowkey_server, rowkey_fork, rowkey_prepared):
    for server in (rowkey_server, rowkey_fork, rowkey_prepared):
        assert "AccountName=shop;AccountKey=a2V5;" in server.connection_string
""",
        flags='["--accounts", "shop:a2V5"]',
    )


def test_a_server_that_starts_again_is_empty_in_spite_of_its_flags(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        3,
        """
def create(server):
    server.control("POST", "/v1/data/table/devstoreaccount1/Tables", {"TableName": "things"})

def names(server):
    return [table["TableName"] for table in server.control("GET", "/v1/data/table/devstoreaccount1/Tables")["value"]]

def test_one(rowkey_server):
    create(rowkey_server)
    rowkey_server.restart()
    assert names(rowkey_server) == ["things"]
    rowkey_server.clock.freeze()

def test_two(rowkey_server):
    assert names(rowkey_server) == []
    create(rowkey_server)

def test_three(rowkey_server):
    assert names(rowkey_server) == []
""",
        flags=f'["--location", {str(pytester.path / "data")!r}]',
    )
