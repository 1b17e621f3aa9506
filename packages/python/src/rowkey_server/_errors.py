"""Errors of this package."""

from __future__ import annotations


class ServerError(Exception):
    """The server did not start, or refused what it was asked."""


class StartError(ServerError):
    """The program is missing, ended, or did not become ready. The message has what it logged."""


class ControlError(ServerError):
    """The server refused a request to its control port.

    The message is the `detail` of the problem that it answered with.
    """

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(f"{status} {title}: {detail}")
        #: The HTTP status.
        self.status = status
        #: The name of the status.
        self.title = title
        #: What happened, and what to do.
        self.detail = detail


class WaitTimeoutError(ControlError, TimeoutError):
    """What was waited for did not happen in time."""


class UnusedFaultWarning(UserWarning):
    """A `with` block of a fault ended, no request had matched, and `hits()` was never called.

    A test whose fault names the wrong operation would otherwise pass for the wrong reason.
    """
