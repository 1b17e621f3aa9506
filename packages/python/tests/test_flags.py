"""Flags of the program that this package must know of."""

from __future__ import annotations

import pytest
from rowkey_server import ControlError, Server


@pytest.mark.parametrize("flags", [("--control-token", "secret"), ("--control-token=other", "--control-token=secret")])
def test_a_server_with_a_token_is_controlled(flags: tuple[str, ...]) -> None:
    with Server(*flags) as server:
        server.clock.now()
        with server.fork() as fork:
            fork.clock.now()
        server.restart()
        server.clock.now()
        # The server demands it.
        server._control.token = None
        with pytest.raises(ControlError) as refused:
            server.clock.now()
        assert refused.value.status == 401


def test_the_token_of_the_environment_is_that_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWKEY_CONTROL_TOKEN", "secret")
    with Server() as server:
        server.clock.now()
        assert server._control.token == "secret"
        server._control.token = "another"
        with pytest.raises(ControlError, match="401"):
            server.clock.now()
    monkeypatch.setenv("ROWKEY_CONTROL_TOKEN", "")
    with Server() as server:
        server.clock.now()


def test_servers_that_issue_tokens_run_side_by_side() -> None:
    with Server("--oauth", "issue") as one, Server("--oauth", "issue") as other, one.fork() as fork:
        authorities = [one.authority, other.authority, fork.authority]
        assert None not in authorities and len(set(authorities)) == 3
        one.restart()
        assert one.authority == authorities[0]
        assert one.control("GET", "/v1/identities")["authority"] == one.authority
    with Server() as server, server.fork() as fork:
        assert server.authority is None and fork.authority is None


def test_connection_strings_have_the_keys_of_accounts() -> None:
    with Server("--accounts", "shop:a2V5") as server, server.fork() as fork:
        for one in (server, fork):
            assert "AccountName=shop;AccountKey=a2V5;" in one.connection_string
