"""A server: the program, or a fork in it, and what a test can ask of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from ._clock import Clock
from ._control import JSON, Control
from ._errors import ServerError
from ._fault import Fault, Injected
from ._guards import Chaos, HeldBack, Throttled
from ._journal import Journal, JournalEntry
from ._operations import Operation, Service
from ._program import Program, control_token, find_program

#: The flags of the ports, which a restart keeps.
_PORTS = ("--blob-port", "--queue-port", "--table-port", "--control-port", "--oauth-port")
#: How far the server's clock may be from the machine's before it was moved.
_TOLERANCE = timedelta(seconds=2)


class Snapshot:
    """The contents that a server had at one instant, for `Server.restore`. The server keeps it until it ends."""

    def __init__(self, control: Control, id: int) -> None:
        self._control = control
        #: The number of the snapshot on its server.
        self.id = id

    def delete(self) -> None:
        """Lets the server forget it."""
        self._control.send("DELETE", f"/v1/snapshots/{self.id}")


class Server:
    """A server on free ports of this machine, with its data in memory.

    It runs from its construction until `close`, the end of the `with` block, or the end of this process:

        with Server() as server:
            service = Orders(server.connection_string)

    `flags` are those of the program, such as `"--strict"`. `timeout` is how long it may take to start, in seconds.
    """

    def __init__(self, *flags: str, timeout: float = 30.0, program: str | None = None) -> None:
        self._flags = flags
        self._timeout = timeout
        self._path = program
        self._parent: Control | None = None
        self._fork_id = 0
        self._program: Program | None = None
        self._start({name: "0" for name in _PORTS})

    def _start(self, ports: dict[str, str]) -> None:
        # A connection string without the key of `--accounts` connects nothing. The ready line goes into a pipe that only
        # this process reads, and into no log. The control port shows keys, too; its callers may do everything anyway.
        flags = ["--show-keys"]
        for name, port in ports.items():
            flags += [name, port]
        # The caller's are the last, and win.
        token = control_token(self._flags)
        self._program = Program(self._path or find_program(), [*flags, *self._flags], token, self._timeout)
        self._describe(self._program.ready, token)
        #: Where `--oauth issue` issues tokens, or `None`.
        self.authority: str | None = self._program.ready.get("authority")
        self._first_identities = self._identities()

    def _describe(self, ready: JSON, token: str | None) -> None:
        #: What an Azure SDK connects with.
        self.connection_string = str(ready["connectionString"])
        #: The address of the Table service, with the account.
        self.table_endpoint = str(ready["table"])
        #: The address of the Queue service, with the account.
        self.queue_endpoint = str(ready["queue"])
        #: The address of the Blob service, with the account.
        self.blob_endpoint = str(ready["blob"])
        #: The address of the control port, which shows a page in a browser.
        self.control_endpoint = str(ready["control"])
        #: The certificate of `--https` in PEM, or `None`.
        self.certificate: str | None = ready.get("certificate")
        control = Control(self.control_endpoint, token)
        known: Control | None = getattr(self, "_control", None)
        # What a test keeps over a restart, such as the clock, must mark the one that is looked at.
        self._control = known if known and (known.url, known.token) == (control.url, token) else control
        self._control.lasting = False
        #: The server's clock.
        self.clock = Clock(self._control)

    def close(self) -> None:
        """Ends the server. Ending it twice has no effect."""
        program, self._program = self._program, None
        parent, self._parent = self._parent, None
        if program is not None:
            program.close()
        if parent is not None:
            try:
                parent.send("DELETE", f"/v1/forks/{self._fork_id}")
            except ServerError:
                # It ends with its parent, which has ended already.
                pass

    def restart(self) -> None:
        """Ends the program and starts it again on the same ports. All is as at the start: no data, no fault, and the
        machine's time. A fork cannot be restarted."""
        if self._program is None:
            raise ServerError("this server was closed, or is a fork: only a running program can be restarted")
        self._start_again()

    def _start_again(self) -> None:
        if self._program is not None:
            self._program.close()
        endpoints = [
            self.blob_endpoint,
            self.queue_endpoint,
            self.table_endpoint,
            self.control_endpoint,
            self.authority,
        ]
        ports = [str(urlsplit(endpoint or "").port or 0) for endpoint in endpoints]
        self._start(dict(zip(_PORTS, ports)))

    def _identities(self) -> Any:
        return self._control.send("GET", "/v1/identities")["identities"] if self.authority else None

    def _renew(self) -> None:
        """Makes everything as at the start, at the same addresses, for another test."""
        try:
            if not self._has_to_start_again():
                self._empty()
                return
        except ServerError:
            # It has ended.
            pass
        self._start_again()
        # Flags may have given it data.
        self._empty()

    def _has_to_start_again(self) -> bool:
        if self._program is None or not self._program.is_running() or self._control.lasting:
            return True
        # What others did, such as the page in a browser.
        clock = self.clock.read()
        far = abs(clock.now - datetime.now(timezone.utc)) > _TOLERANCE
        return clock.frozen or far or self._identities() != self._first_identities

    def _empty(self) -> None:
        for made in ("forks", "snapshots"):
            for one in self._control.send("GET", f"/v1/{made}")[made]:
                self._control.send("DELETE", f"/v1/{made}/{one['id']}")
        for guard in ("throttle", "secondary", "pages"):
            self._control.send("DELETE", f"/v1/{guard}")
        self.reset()

    def log(self) -> str:
        """The last lines that the program logged. A fork logs with its parent."""
        return self._program.log() if self._program else ""

    def inject(self, fault: Fault) -> Injected:
        """Injects a fault, which is active until the end of the `with` block, `remove`, or `reset`.

        Faults are matched in the order in which they were injected. The first match applies to the request.
        """
        answer = self._control.send("POST", "/v1/faults", fault.to_json())
        return Injected(self._control, fault, int(answer["id"]))

    def throttle(
        self,
        *,
        requests_per_account: int = 20_000,
        entities_per_partition: int = 2_000,
        messages_per_queue: int = 2_000,
    ) -> Throttled:
        """Rejects requests beyond these rates per second with 503 `ServerBusy` and `Retry-After`, until the result is
        ended. The defaults are the service's documented targets.

        A second's worth may be used at once; it refills by the server's clock.
        """
        targets = {
            "requestsPerAccount": requests_per_account,
            "entitiesPerPartition": entities_per_partition,
            "messagesPerQueue": messages_per_queue,
        }
        self._control.send("PUT", "/v1/throttle", targets)
        return Throttled(self._control)

    def pages(self, seed: int, *, cut: bool = True, empty: bool = True, partition_only: bool = True) -> Chaos:
        """Cuts pages of entity queries and of listings, until the result is ended.

        `cut`: pages end after a few rows. `empty`: first pages have no entities, but a continuation token.
        `partition_only`: pages end at the end of their partition, with a token without a `NextRowKey`. The same seed cuts
        the same sequence of requests at the same places.
        """
        pages = {"seed": seed, "cut": cut, "empty": empty, "partitionOnly": partition_only}
        self._control.send("PUT", "/v1/pages", pages)
        return Chaos(self._control)

    def hold_back_secondary(self) -> HeldBack:
        """Keeps the secondary from catching up, until the result is ended."""
        self._control.send("PUT", "/v1/secondary", {})
        return HeldBack(self._control)

    def journal(
        self,
        *,
        operation: Operation | None = None,
        service: Service | None = None,
        account: str | None = None,
        about: str | None = None,
        committed: bool | None = None,
    ) -> Journal:
        """The requests received so far, or those of them that match."""
        query = {
            "operation": operation,
            "service": service,
            "account": account,
            "about": about,
            "committed": committed,
        }
        answer = self._control.send("GET", "/v1/journal", query=query)
        return Journal([JournalEntry.from_json(entry) for entry in answer["entries"]])

    def clear_journal(self) -> None:
        """Forgets the requests received so far."""
        self._control.send("DELETE", "/v1/journal")

    def snapshot(self) -> Snapshot:
        """A copy of everything the server contains now. Tables cost almost nothing until one is changed."""
        return Snapshot(self._control, int(self._control.send("POST", "/v1/snapshots")["id"]))

    def restore(self, snapshot: Snapshot) -> None:
        """Restores the contents that this server had when the snapshot was taken. Nothing else changes."""
        self._control.send("POST", f"/v1/snapshots/{snapshot.id}/restore")

    def fork(self) -> Server:
        """Starts another server in the same program, on its own ports, with the same contents and the same time. From
        then on the two are independent. Faults, throttling, page cuts and the journal are not copied."""
        answer = self._control.send("POST", "/v1/forks")
        fork = Server.__new__(Server)
        fork._flags, fork._timeout, fork._path, fork._program = self._flags, self._timeout, self._path, None
        fork._parent, fork._fork_id = self._control, int(answer["id"])
        fork._describe(answer, self._control.token)
        # The answer does not name it.
        fork.authority = fork._control.send("GET", "/v1/identities")["authority"] if self.authority else None
        return fork

    def reset(self, *, account: str | None = None, service: Service | None = None) -> None:
        """Deletes everything: data, faults, page cuts and the journal. With an account or a service, only its data.
        The clock keeps its time."""
        chosen = {"account": account, "service": service}
        self._control.send("POST", "/v1/reset", {name: value for name, value in chosen.items() if value is not None})

    def seed(self, contents: dict[str, Any]) -> dict[str, int]:
        """Puts tables, queues and blobs in, in the format of a file of `--seed`. Returns how many of each."""
        return self._control.send("POST", "/v1/seed", contents)

    def export_state(self) -> bytes:
        """The whole contents as one file."""
        return self._control.send_bytes("GET", "/v1/state")

    def import_state(self, state: bytes) -> None:
        """Replaces the contents by those of a file of `export_state`."""
        self._control.send_bytes("PUT", "/v1/state", state)

    def control(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Sends any other request to the control port, which `control_endpoint` + `/openapi.json` lists."""
        return self._control.send(method, path, body)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rowkey-server {self.table_endpoint}, control {self.control_endpoint}>"


