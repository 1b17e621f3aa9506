"""Runs `scenario.json` with the Azure SDK for Python, and compares the journal with `scenario.journal.json`.

With `--write`, writes that file instead.
"""

from __future__ import annotations

import json
import pathlib
import sys
from datetime import timedelta
from typing import Any, Callable

from azure.core.exceptions import HttpResponseError, ServiceResponseError
from azure.data.tables import TableServiceClient
from azure.storage.queue import QueueServiceClient
from rowkey_server import Fault, Injected, Server, Snapshot
from rowkey_server._guards import Throttled

HERE = pathlib.Path(__file__).resolve().parent
#: Asks for nothing in the answer, which is then a 204. Other clients do so by default.
NO_CONTENT = {"Prefer": "return-no-content"}


def outcome(call: Callable[[], Any]) -> Any:
    """What a step expects: what the call returns, the status of its answer, or that there was none."""
    try:
        return call()
    except HttpResponseError as error:
        return error.status_code
    except ServiceResponseError:
        return "no answer"


class Scenario:
    """A server, and what the steps name."""

    def __init__(self, server: Server) -> None:
        self.server = server
        # Each step is one request.
        self.tables = TableServiceClient.from_connection_string(server.connection_string, retry_total=0)
        self.queues = QueueServiceClient.from_connection_string(server.connection_string, retry_total=0)
        self.faults: dict[str, Injected] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.throttled: Throttled | None = None
        self.journal: list[dict[str, Any]] = []

    def step(self, do: str, **named: Any) -> Any:
        """Carries out one step, and returns what it expects."""
        server = self.server
        match do:
            case "createTable":
                self.tables.create_table(named["table"], headers=NO_CONTENT)
            case "createQueue":
                self.queues.create_queue(named["queue"])
            case "insert":
                entity = {"PartitionKey": named["partition"], "RowKey": named["row"], "item": named["item"]}
                self.tables.get_table_client(named["table"]).create_entity(entity, headers=NO_CONTENT)
                return "ok"
            case "get":
                return self.tables.get_table_client(named["table"]).get_entity(named["partition"], named["row"])["item"]
            case "put":
                self.queues.get_queue_client(named["queue"]).send_message(named["text"])
                return "ok"
            case "receive":
                queue = self.queues.get_queue_client(named["queue"])
                message = queue.receive_message(visibility_timeout=named["visibility"])
                return message and message.content
            case "inject":
                self.faults[named["name"]] = server.inject(Fault.from_json(named["fault"]))
            case "hits":
                return self.faults[named["name"]].hits()
            case "remove":
                self.faults[named["name"]].remove()
            case "throttle":
                self.throttled = server.throttle(entities_per_partition=named["targets"]["entitiesPerPartition"])
            case "unthrottle":
                assert self.throttled
                self.throttled.end()
            case "freeze":
                server.clock.freeze()
            case "follow":
                server.clock.follow()
            case "advance":
                server.clock.advance(timedelta(seconds=named["seconds"]))
            case "snapshot":
                self.snapshots[named["name"]] = server.snapshot()
            case "restore":
                server.restore(self.snapshots[named["name"]])
            case "reset":
                server.reset()
            case "journal":
                self.journal += [
                    {
                        "operation": entry.operation,
                        "resource": entry.resource,
                        "status": entry.status,
                        "committed": entry.committed,
                    }
                    for entry in server.journal()
                ]
            case _:
                raise ValueError(f"no such step: {do}")
        return None


def main() -> None:
    steps = json.loads((HERE / "scenario.json").read_text())["steps"]
    expected = HERE / "scenario.journal.json"
    with Server() as server:
        scenario = Scenario(server)
        for number, step in enumerate(steps, 1):
            expects = step.pop("expect", None)
            is_outcome = outcome(lambda: scenario.step(**step))
            assert is_outcome == expects, f"step {number}, {step}: {is_outcome!r} instead of {expects!r}"
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in scenario.journal)
    if "--write" in sys.argv[1:]:
        expected.write_text(f"[\n{lines}\n]\n")
    assert scenario.journal == json.loads(expected.read_text()), f"the journal is [\n{lines}\n]"
    print(f"Python: {len(steps)} steps, {len(scenario.journal)} requests, the journal is that of {expected.name}")


main()
