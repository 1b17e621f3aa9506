"""Azure Table, Queue and Blob storage for tests: the program `rowkey-server`, started and controlled from Python.

    from rowkey_server import Fault, Server

    with Server() as server:
        service = Orders(server.connection_string)
        with server.inject(Fault.on("InsertEntity").nth(1).close_after_commit()) as lost:
            service.place("ada", "1")
        assert lost.hits() == 1

Names are those of the Rust library `rowkey-emulator`.
"""

from ._clock import Clock, ClockReading
from ._errors import ControlError, ServerError, StartError, UnusedFaultWarning, WaitTimeoutError
from ._fault import Fault, Injected, Matching
from ._guards import Chaos, HeldBack, Throttled
from ._journal import Journal, JournalEntry
from ._operations import Operation, Service
from ._program import find_program
from ._server import Server, Snapshot

__all__ = [
    "Chaos",
    "Clock",
    "ClockReading",
    "ControlError",
    "Fault",
    "HeldBack",
    "Injected",
    "Journal",
    "JournalEntry",
    "Matching",
    "Operation",
    "Server",
    "ServerError",
    "Service",
    "Snapshot",
    "StartError",
    "Throttled",
    "UnusedFaultWarning",
    "WaitTimeoutError",
    "find_program",
]
