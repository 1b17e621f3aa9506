"""Throttling, page cuts and a secondary that is held back: each lasts until it is ended."""

from __future__ import annotations

from types import TracebackType

from ._control import Control
from ._errors import ServerError


class _Guard:
    _path = ""

    def __init__(self, control: Control) -> None:
        self._control = control

    def end(self) -> None:
        """Ends it, as the end of the `with` block does. Ending it twice has no effect."""
        self._control.send("DELETE", self._path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        except ServerError:
            # The server was closed inside of the block. What the block raised says more.
            if error is None:
                raise


class Throttled(_Guard):
    """Rates above which the server answers 503 `ServerBusy`."""

    _path = "/v1/throttle"

    def __enter__(self) -> Throttled:
        return self


class Chaos(_Guard):
    """Pages of results that end early."""

    _path = "/v1/pages"

    def __enter__(self) -> Chaos:
        return self

    def cuts(self) -> int:
        """The number of pages that were selected to end early, including those that had no more rows anyway."""
        return int(self._control.send("GET", self._path)["cuts"])


class HeldBack(_Guard):
    """A secondary that shows what the primary had when it was held back."""

    _path = "/v1/secondary"

    def __enter__(self) -> HeldBack:
        return self
