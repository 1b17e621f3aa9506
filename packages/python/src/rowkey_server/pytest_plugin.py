"""Fixtures for pytest, which loads this by itself when the package is installed.

`rowkey_server` is for most tests, `rowkey_fork` for those that share prepared data, or move the clock far.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from ._server import Server

#: How far the server's clock may be from the machine's before it was moved by a test.
_TOLERANCE = timedelta(seconds=2)


@pytest.fixture(scope="session")
def rowkey_server_flags() -> list[str]:
    """The flags of the server of the session. Override it in `conftest.py`: `return ["--strict"]`."""
    return []


@pytest.fixture(scope="session")
def rowkey_server_session(rowkey_server_flags: list[str]) -> Iterator[Server]:
    """One server for all tests of this process. Each worker of pytest-xdist has its own."""
    with Server(*rowkey_server_flags) as server:
        yield server


@pytest.fixture
def rowkey_server(rowkey_server_session: Server) -> Server:
    """The server of the session: empty, without faults, and at the machine's time. Its address is the same in each
    test."""
    server = rowkey_server_session
    clock = server.clock.read()
    if clock.frozen or abs(clock.now - datetime.now(timezone.utc)) > _TOLERANCE:
        # A test has moved it, and clocks are never set back.
        server.restart()
    else:
        for guard in ("/v1/throttle", "/v1/secondary", "/v1/pages"):
            server.control("DELETE", guard)
        server.reset()
    return server


@pytest.fixture(scope="session")
def rowkey_prepared() -> Iterator[Server]:
    """The server that `rowkey_fork` copies. Override it in `conftest.py` with one that has data."""
    with Server() as server:
        yield server


@pytest.fixture
def rowkey_fork(rowkey_prepared: Server) -> Iterator[Server]:
    """A copy of `rowkey_prepared` for one test, with its own ports and its own clock."""
    with rowkey_prepared.fork() as fork:
        yield fork
