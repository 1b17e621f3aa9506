"""Faults: which requests they match, and what happens to those requests."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any

from ._control import JSON, Control
from ._errors import ControlError, ServerError, UnusedFaultWarning
from ._operations import Operation, Service


@dataclass(frozen=True)
class Matching:
    """The requests that a fault matches. Choosing an action turns it into a `Fault`."""

    _operation: str | None = None
    _service: str | None = None
    _resource: str | None = None
    _nth: int | None = None
    _times: int | None = None

    def resource(self, name: str) -> Matching:
        """Matches only requests about this table, queue or container (including everything in it), or about this
        blob, written `container/name`. Names are compared without case."""
        return replace(self, _resource=name)

    def nth(self, k: int) -> Matching:
        """Matches only the `k`-th of these requests, counted from 1; with `times`, from the `k`-th on."""
        return replace(self, _nth=k)

    def times(self, n: int) -> Matching:
        """Matches at most `n` of them. Without this and without `nth`, it matches all."""
        return replace(self, _times=n)

    def reject(self, code: str) -> Fault:
        """Rejects them with this error code, such as `"ServerBusy"`, and its status. Nothing is changed."""
        return self._then({"reject": code})

    def delay(self, duration: timedelta) -> Fault:
        """Delays their responses until the server's clock is this much past their arrival. Changes take effect at
        once, and no other request waits. Parts of a millisecond are rounded up."""
        return self._then({"delayMs": -(-duration // timedelta(milliseconds=1))})

    def close_before_commit(self) -> Fault:
        """Closes the connection without executing them."""
        return self._then("closeBeforeCommit")

    def close_after_commit(self) -> Fault:
        """Executes them, and closes the connection without sending the response."""
        return self._then("closeAfterCommit")

    def truncate(self, bytes: int) -> Fault:
        """Executes them, and closes the connection after the head of the response and this number of bytes of its
        body."""
        return self._then({"truncate": bytes})

    def hold(self) -> Fault:
        """Holds them before they are executed, until `Injected.release` or `Injected.discard`."""
        return self._then("hold")

    def _then(self, action: object) -> Fault:
        names = ["operation", "service", "resource", "nth", "times"]
        chosen = {name: getattr(self, f"_{name}") for name in names}
        return Fault({name: value for name, value in chosen.items() if value is not None} | {"action": action})


@dataclass(frozen=True)
class Fault:
    """A failure of certain requests, for `Server.inject`.

    Select the requests first, then what happens to them:

        Fault.on("InsertEntity").resource("orders").nth(2).close_after_commit()
    """

    _json: JSON

    @staticmethod
    def on(operation: Operation) -> Matching:
        """Matches requests of one operation, named as in the REST reference. Reading one entity by its keys is
        `GetEntity`, and reading one table by its name is `GetTable`."""
        return Matching(_operation=operation)

    @staticmethod
    def service(service: Service) -> Matching:
        """Matches requests to one service."""
        return Matching(_service=service)

    @staticmethod
    def any() -> Matching:
        """Matches all requests."""
        return Matching()

    @staticmethod
    def from_json(fault: dict[str, Any]) -> Fault:
        """A fault in the form that the control port takes, as in a file of `--faults`."""
        return Fault(dict(fault))

    def to_json(self) -> dict[str, Any]:
        """The fault in the form that the control port takes."""
        return dict(self._json)


class Injected:
    """A fault that is active until it is removed, which the end of a `with` block does, or the server is reset.

    Removing it lets the requests go on that it holds.
    """

    def __init__(self, control: Control, fault: Fault, id: int) -> None:
        self._control = control
        self._path = f"/v1/faults/{id}"
        self._observed = False
        self._last_hits = 0
        self._active = True
        #: The number of the fault on the server, which entries of the journal name.
        self.id = id
        #: What was injected.
        self.fault = fault

    def hits(self) -> int:
        """The number of requests that matched, also after the fault was removed."""
        self._observed = True
        return self._hits()

    def held(self) -> int:
        """The number of requests that `hold` holds now."""
        return int(self._control.send("GET", self._path)["held"]) if self._active else 0

    def wait_until_hit(self, n: int = 1, timeout: float = 10.0) -> None:
        """Waits until at least `n` requests have matched, or raises `WaitTimeoutError`."""
        self._wait("hits", n, timeout)

    def wait_until_held(self, timeout: float = 10.0) -> None:
        """Waits until `hold` holds at least one request, or raises `WaitTimeoutError`."""
        self._wait("held", 1, timeout)

    def release(self) -> None:
        """Lets the held requests continue. Later ones are not held."""
        self._control.send("POST", f"{self._path}/release")

    def discard(self) -> None:
        """Removes the fault, and closes the connections of the held requests, which are not executed."""
        self._remove(discard=True)

    def remove(self) -> None:
        """Removes the fault. The requests that it holds continue."""
        self._remove(discard=False)

    def __enter__(self) -> Injected:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._remove(discard=False)
        except ServerError:
            # The server was closed inside of the block. What the block raised says more.
            if error is None:
                raise
        if error is None and not self._observed and self._last_hits == 0:
            message = f"no request matched the fault {self.fault.to_json()}; does it name the right operation?"
            warnings.warn(message, UnusedFaultWarning, stacklevel=2)

    def _hits(self) -> int:
        if self._active:
            try:
                self._last_hits = int(self._control.send("GET", self._path)["hits"])
            except ControlError as error:
                # A reset has removed it.
                if error.status != 404:
                    raise
                self._active = False
        return self._last_hits

    def _remove(self, *, discard: bool) -> None:
        self._hits()
        if not self._active:
            return
        self._active = False
        try:
            self._control.send("DELETE", self._path, query={"discard": True} if discard else None)
        except ControlError as error:
            if error.status != 404:
                raise

    def _wait(self, what: str, n: int, timeout: float) -> None:
        self._observed = True
        query = {what: n, "timeoutMs": math.ceil(timeout * 1000)}
        self._last_hits = int(self._control.send("GET", f"{self._path}/wait", query=query, timeout=timeout)["hits"])
