"""The journal: the requests that a server received, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import overload

from ._clock import parse_time
from ._control import JSON
from ._operations import Operation, Service


@dataclass(frozen=True)
class JournalEntry:
    """A request in a `Journal`."""

    #: Its position among all requests that the server received, from 1.
    number: int
    #: When it arrived, by the server's clock.
    at: datetime
    #: The service it was sent to.
    service: str
    #: The operation that it requested.
    operation: str
    #: The account in its address.
    account: str
    #: The table, queue or container that it is about, or the blob, written `container/name`.
    resource: str
    #: The status of its answer, or `None` if there was none.
    status: int | None
    #: Whether it changed something.
    committed: bool
    #: The error code of its answer.
    code: str | None
    #: The rule by which it was refused.
    rule: str | None
    #: What its signature should have been computed from, if it was refused for its signature.
    string_to_sign: str | None
    #: The number of the fault that applied to it.
    fault: int | None

    @staticmethod
    def from_json(entry: JSON) -> JournalEntry:
        """An entry in the form of the control port."""
        return JournalEntry(
            number=entry["number"],
            at=parse_time(entry["at"]),
            service=entry["service"],
            operation=entry["operation"],
            account=entry["account"],
            resource=entry["resource"],
            status=entry.get("status"),
            committed=entry["committed"],
            code=entry.get("code"),
            rule=entry.get("rule"),
            string_to_sign=entry.get("stringToSign"),
            fault=entry.get("fault"),
        )


class Journal(Sequence[JournalEntry]):
    """The requests that a server received, oldest first. A server remembers the last 10,000."""

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._entries = tuple(entries)

    def count(self, operation: object) -> int:
        """The number of requests of this operation, successful or not."""
        return len(self._where(lambda entry: entry.operation == operation))

    def of(self, operation: Operation) -> Journal:
        """Only requests of this operation."""
        return self._where(lambda entry: entry.operation == operation)

    def service(self, service: Service) -> Journal:
        """Only requests to this service."""
        return self._where(lambda entry: entry.service == service)

    def about(self, name: str) -> Journal:
        """Only requests about this table, queue or container (including everything in it), or about this blob, written
        `container/name`."""
        name = name.lower()

        def is_about(entry: JournalEntry) -> bool:
            resource = entry.resource.lower()
            return resource == name or resource.startswith(f"{name}/")

        return self._where(is_about)

    def since(self, earlier: Journal) -> Journal:
        """Only requests that came after the last request of an earlier journal."""
        last = earlier[-1].number if earlier else 0
        return self._where(lambda entry: entry.number > last)

    def committed(self) -> Journal:
        """Only requests that changed something."""
        return self._where(lambda entry: entry.committed)

    def _where(self, keep: Callable[[JournalEntry], bool]) -> Journal:
        return Journal([entry for entry in self._entries if keep(entry)])

    @overload
    def __getitem__(self, at: int) -> JournalEntry: ...
    @overload
    def __getitem__(self, at: slice) -> Journal: ...
    def __getitem__(self, at: int | slice) -> JournalEntry | Journal:
        return Journal(self._entries[at]) if isinstance(at, slice) else self._entries[at]

    def __iter__(self) -> Iterator[JournalEntry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        # What a failed assertion of a test shows.
        lines = (
            f"  {entry.number} {entry.operation} {entry.resource} {entry.status or 'no answer'}"
            f"{' ' + entry.code if entry.code else ''}{' committed' if entry.committed else ''}"
            for entry in self._entries
        )
        return "\n".join([f"Journal of {len(self)} requests:", *lines])
