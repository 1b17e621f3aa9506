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
