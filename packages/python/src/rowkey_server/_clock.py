"""The clock of a server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from ._control import JSON, Control


def parse_time(text: str) -> datetime:
    """A time of the control port: UTC, with up to seven digits after the second."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    microseconds = int(fraction.ljust(6, "0")[:6]) if fraction else 0
    return datetime.fromisoformat(seconds).replace(microsecond=microseconds, tzinfo=timezone.utc)


@dataclass(frozen=True)
class ClockReading:
    """What the clock of a server shows."""

    #: The time, in UTC.
    now: datetime
    #: Whether it stands still.
    frozen: bool


class Clock:
    """The clock that everything on the server follows that depends on time: timestamps, the visibility and expiry of
    messages, leases, shared access signatures, blocked names, injected delays and throttling.

    Clients date their requests by the machine's clock, and the server refuses (403) those that are more than 15
    minutes from its own: move it by less, in one test.
    """

    def __init__(self, control: Control) -> None:
        self._control = control

    def read(self) -> ClockReading:
        """The time, and whether it stands still."""
        return self._reading(self._control.send("GET", "/v1/clock"))

    def now(self) -> datetime:
        """The time, in UTC."""
        return self.read().now

    def advance(self, by: timedelta) -> ClockReading:
        """Moves the clock forward."""
        return self._reading(self._control.send("POST", "/v1/clock/advance", {"seconds": by.total_seconds()}))

    def freeze(self) -> ClockReading:
        """Stops the clock. It can still be advanced."""
        return self._reading(self._control.send("POST", "/v1/clock/freeze"))

    def follow(self) -> ClockReading:
        """Lets the clock go on from the time that it shows."""
        return self._reading(self._control.send("POST", "/v1/clock/follow"))

    @staticmethod
    def _reading(clock: JSON) -> ClockReading:
        return ClockReading(parse_time(clock["now"]), bool(clock["frozen"]))
