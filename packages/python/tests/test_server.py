"""The package against its program, on the standard library alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from datetime import datetime, timedelta, timezone

import pytest
from rowkey_server import (
    ControlError,
    Fault,
    Injected,
    Server,
    ServerError,
    StartError,
    UnusedFaultWarning,
    WaitTimeoutError,
    find_program,
)

pytest_plugins = ["pytester"]


def tables(server: Server) -> int:
    """Lists the tables without a signature, and returns the status of the answer."""
    try:
        with urllib.request.urlopen(f"{server.table_endpoint}/Tables") as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def create_table(server: Server, name: str) -> None:
    path = "/v1/data/table/devstoreaccount1/Tables"
    server.control("POST", path, {"TableName": name})


def table_names(server: Server) -> list[str]:
    listed = server.control("GET", "/v1/data/table/devstoreaccount1/Tables")["value"]
    return [table["TableName"] for table in listed]


def test_the_program_is_that_of_the_wheel() -> None:
    path = find_program()
    assert os.path.isfile(path)
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("rowkey-server ")
    same = subprocess.run([sys.executable, "-m", "rowkey_server", "--version"], capture_output=True, text=True, check=True)
    assert same.stdout == version.stdout


def test_a_closed_server_says_so() -> None:
    server = Server()
    assert tables(server) in (401, 403)
    server.close()
    server.close()
    with pytest.raises(ServerError, match="has it been closed"):
        server.clock.now()
    with pytest.raises(ServerError, match="only a running program"):
        server.restart()


def test_a_program_that_does_not_start_shows_its_log() -> None:
    with pytest.raises(StartError, match="it logged:\n.*--no-such-flag"):
        Server("--no-such-flag")
    with pytest.raises(StartError, match="cannot start"):
        Server(program="/no/such/program")


@pytest.mark.skipif(os.name != "posix", reason="kills by a signal")
def test_the_program_ends_with_a_killed_parent() -> None:
    script = (
        "import os, signal, rowkey_server\n"
        "server = rowkey_server.Server()\n"
        "print(server.control_endpoint, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    deadline = time.monotonic() + 30
    # Refused, or reset while it ends.
    with pytest.raises(OSError):
        while True:
            urllib.request.urlopen(f"{parent.stdout.strip()}/health").close()
            assert time.monotonic() < deadline, "it still runs"


def test_a_fault_hits_and_is_removed() -> None:
    with Server() as server:
        with server.inject(Fault.on("QueryTables").nth(2).reject("ServerBusy")) as busy:
            assert [tables(server) == 503 for _ in range(3)] == [False, True, False]
            busy.wait_until_hit()
        assert busy.hits() == 1
        assert server.control("GET", "/v1/faults")["faults"] == []
        [entry] = [entry for entry in server.journal() if entry.status == 503]
        assert (entry.operation, entry.service, entry.code) == ("QueryTables", "table", "ServerBusy")
        assert entry.fault == busy.id


def test_delays_are_rounded_up_to_milliseconds() -> None:
    delays = [timedelta(0), timedelta(microseconds=1), timedelta(milliseconds=1.5), timedelta(seconds=2)]
    assert [Fault.any().delay(delay).to_json()["action"]["delayMs"] for delay in delays] == [0, 1, 2, 2000]


def test_a_held_request_goes_on_when_it_is_released() -> None:
    with Server() as server, server.inject(Fault.any().hold()) as held:
        answers: list[int] = []
        client = threading.Thread(target=lambda: answers.append(tables(server)))
        client.start()
        held.wait_until_held()
        assert held.held() == 1 and not answers
        held.release()
        client.join()
        assert len(answers) == 1


def test_a_discarded_request_gets_no_answer() -> None:
    with Server() as server, server.inject(Fault.any().hold()) as held:
        failed: list[Exception] = []

        def ask() -> None:
            try:
                tables(server)
            except OSError as error:
                failed.append(error)

        client = threading.Thread(target=ask)
        client.start()
        held.wait_until_held()
        held.discard()
        client.join()
        assert len(failed) == 1


def test_waiting_has_a_timeout() -> None:
    with Server() as server, server.inject(Fault.any().hold()) as held:
        with pytest.raises(WaitTimeoutError) as error:
            held.wait_until_hit(timeout=0.05)
        assert isinstance(error.value, TimeoutError)


def test_a_fault_that_matched_nothing_is_a_warning_unless_its_hits_were_read() -> None:
    with Server() as server:
        with pytest.warns(UnusedFaultWarning, match="InsertEntity"):
            with server.inject(Fault.on("InsertEntity").hold()):
                pass
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with server.inject(Fault.on("InsertEntity").hold()) as fault:
                assert fault.hits() == 0


def test_a_fault_survives_a_reset_as_an_object() -> None:
    with Server() as server:
        fault: Injected = server.inject(Fault.service("table").times(1).truncate(10))
        server.reset()
        assert fault.hits() == 0
        fault.remove()


def test_errors_have_the_detail_of_the_problem() -> None:
    with Server() as server, pytest.raises(ControlError, match="77") as error:
        server.control("GET", "/v1/faults/77")
    assert (error.value.status, error.value.title) == (404, "Not Found")


def test_the_clock_moves_and_stops() -> None:
    with Server() as server:
        before = server.clock.freeze()
        assert before.frozen and server.clock.now() == before.now
        assert server.clock.advance(timedelta(minutes=5)).now == before.now + timedelta(minutes=5)
        assert not server.clock.follow().frozen
        server.restart()
        assert abs(server.clock.now() - datetime.now(timezone.utc)) < timedelta(minutes=1)


def test_snapshots_forks_and_states() -> None:
    with Server() as server:
        create_table(server, "first")
        snapshot, state = server.snapshot(), server.export_state()
        with server.fork() as fork:
            create_table(fork, "second")
            assert (table_names(fork), table_names(server)) == (["first", "second"], ["first"])
        server.reset()
        assert table_names(server) == []
        server.restore(snapshot)
        assert table_names(server) == ["first"]
        snapshot.delete()
        server.reset(service="table")
        server.import_state(state)
        assert table_names(server) == ["first"]


def test_a_seed_fills_the_server() -> None:
    with Server() as server:
        order = {"PartitionKey": "ada", "RowKey": "1", "item": "lamp"}
        counted = server.seed({"tables": {"orders": [order]}})
        assert (counted["tables"], counted["entities"]) == (1, 1)
        path = "/v1/data/table/devstoreaccount1/orders(PartitionKey='ada',RowKey='1')"
        assert server.control("GET", path)["item"] == "lamp"
        with pytest.raises(ControlError):
            server.seed({"tables": 7})


def test_throttling_cuts_and_the_secondary_end() -> None:
    with Server() as server:
        with server.throttle(requests_per_account=1), server.pages(7) as pages, server.hold_back_secondary():
            assert server.control("GET", "/v1/throttle")["targets"]["requestsPerAccount"] == 1
            assert server.control("GET", "/v1/secondary")["heldBack"]
            assert pages.cuts() == 0
        assert server.control("GET", "/v1/throttle")["targets"] is None
        assert server.control("GET", "/v1/pages")["pages"] is None
        assert not server.control("GET", "/v1/secondary")["heldBack"]


def test_the_journal_is_filtered() -> None:
    with Server() as server:
        tables(server)
        before = server.journal()
        tables(server)
        later = server.journal().since(before)
        assert (len(before), len(later), later.count("QueryTables")) == (1, 1, 1)
        assert not later.committed() and not later.service("queue") and not later.about("orders")
        assert "QueryTables" in repr(later)
        server.clear_journal()
        assert not server.journal()


def test_the_fixture_gives_each_test_an_empty_server_at_one_address(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import datetime

        seen = []

        def test_one(rowkey_server):
            seen.append(rowkey_server.table_endpoint)
            rowkey_server.control("POST", "/v1/data/table/devstoreaccount1/Tables", {"TableName": "things"})
            rowkey_server.clock.advance(datetime.timedelta(minutes=10))

        def test_two(rowkey_server):
            seen.append(rowkey_server.table_endpoint)
            assert rowkey_server.control("GET", "/v1/data/table/devstoreaccount1/Tables")["value"] == []
            now = datetime.datetime.now(datetime.timezone.utc)
            assert abs(rowkey_server.clock.now() - now) < datetime.timedelta(minutes=1)
            rowkey_server.throttle(requests_per_account=1)

        def test_three(rowkey_server):
            seen.append(rowkey_server.table_endpoint)
            assert rowkey_server.control("GET", "/v1/throttle")["targets"] is None
            assert len(set(seen)) == 1

        def test_fork(rowkey_fork, rowkey_prepared):
            assert rowkey_fork.table_endpoint != rowkey_prepared.table_endpoint
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=4)
