"""Fixtures for pytest, which loads this by itself when the package is installed.

`rowkey_server` is for most tests, `rowkey_fork` for those that share prepared data, or move the clock far.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ._server import Server


@pytest.fixture(scope="session")
def rowkey_server_flags() -> list[str]:
    """The flags of the servers of the session, without ports. Override it in `conftest.py`: `return ["--strict"]`."""
    return []


@pytest.fixture(scope="session")
def rowkey_server_session(rowkey_server_flags: list[str]) -> Iterator[Server]:
    """One server for all tests of this process. Each worker of pytest-xdist has its own."""
    with Server(*rowkey_server_flags) as server:
        yield server


@pytest.fixture
def rowkey_server(rowkey_server_session: Server) -> Server:
    """The server of the session: empty, without faults, and at the machine's time. Its address is the same in each
    test.

    It is started again if a test has moved its clock, changed its identities, or ended it. Forks and snapshots of earlier
    tests end."""
    rowkey_server_session._renew()
    return rowkey_server_session


@pytest.fixture(scope="session")
def rowkey_prepared(rowkey_server_flags: list[str]) -> Iterator[Server]:
    """The server that `rowkey_fork` copies. Override it in `conftest.py` with one that has data."""
    with Server(*rowkey_server_flags) as server:
        yield server


@pytest.fixture
def rowkey_fork(rowkey_prepared: Server) -> Iterator[Server]:
    """A copy of `rowkey_prepared` for one test, with its own ports and its own clock."""
    with rowkey_prepared.fork() as fork:
        yield fork
