"""Where the program is found, how it starts and how it ends."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import pytest
import rowkey_server
from rowkey_server import Server, StartError, find_program
from rowkey_server._program import _folders_beside


def test_the_program_is_found_after_pip_install_target() -> None:
    # In a folder near the root, which has fewer parents than the one of an environment.
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        assert rowkey_server.__file__
        shutil.copytree(pathlib.Path(rowkey_server.__file__).parent, folder / "rowkey_server")
        (folder / "bin").mkdir()
        shutil.copy(find_program(), folder / "bin")
        environment = {name: value for name, value in os.environ.items() if name != "ROWKEY_SERVER"}
        found = subprocess.run(
            [sys.executable, "-c", "import rowkey_server; print(rowkey_server.find_program())"],
            env=environment | {"PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        # That of this folder, and not that of the environment, which may be of another version.
        assert pathlib.Path(found.stdout.strip()).parent == (folder / "bin").resolve(), found.stderr
    finally:
        shutil.rmtree(folder)


def test_the_program_is_looked_for_where_pip_puts_it() -> None:
    posix, windows = pathlib.PurePosixPath, pathlib.PureWindowsPath
    target = _folders_beside(posix("/deps/rowkey_server"), windows=False)
    assert target == [posix("/deps/bin")]
    prefix = _folders_beside(posix("/opt/app/lib/python3.12/site-packages/rowkey_server"), windows=False)
    assert posix("/opt/app/bin") in prefix
    target_windows = _folders_beside(windows("C:/deps/rowkey_server"), windows=True)
    assert target_windows == [windows("C:/deps/Scripts"), windows("C:/deps/bin")]
    prefix_windows = _folders_beside(windows("C:/app/Lib/site-packages/rowkey_server"), windows=True)
    assert windows("C:/app/Scripts") in prefix_windows
    # Not in `/bin`: a folder of others.
    assert _folders_beside(posix("/site-packages/rowkey_server"), windows=False) == [posix("/site-packages/bin")]


@pytest.mark.skipif(os.name != "posix", reason="a program that is a script")
@pytest.mark.parametrize("printed", ["123", "null", "[]", "ready", '{"ready":true}', '{"control":"http://127.0.0.1:1"}', ""])
def test_a_program_that_prints_something_else_is_a_start_error(tmp_path: pathlib.Path, printed: str) -> None:
    script = tmp_path / "another"
    script.write_text(f"#!/bin/sh\necho 'its log' >&2\necho '{printed}'\nexec cat\n")
    script.chmod(0o755)
    with pytest.raises(StartError, match="another did not print the line of a rowkey-server"):
        Server(program=str(script))


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@forks
def test_the_program_ends_with_a_killed_parent_that_has_forked() -> None:
    script = (
        "import os, signal, rowkey_server\n"
        "server = rowkey_server.Server()\n"
        "if os.fork() == 0:\n"
        "    os.close(1)\n"
        "    os.close(2)\n"
        "    os.read(0, 1)\n"
        "    os._exit(0)\n"
        "print(server.control_endpoint, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    # The forked process runs until the end of the block, which closes its standard input.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin and parent.stdout
        control = parent.stdout.read().strip()
        assert parent.wait() == -signal.SIGKILL and control
        try:
            deadline = time.monotonic() + 30
            # Refused, or reset while it ends.
            with pytest.raises(OSError):
                while True:
                    urllib.request.urlopen(f"{control}/health").close()
                    assert time.monotonic() < deadline, "it still runs"
                    time.sleep(0.01)
        finally:
            parent.stdin.close()


@forks
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_forked_ends_its_program_at_once() -> None:
    server = Server()
    assert server._program
    process = server._program._process
    blocked, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        os.read(blocked, 1)
        os._exit(0)
    os.close(blocked)
    # The forked process runs, and holds what it has inherited.
    server.close()
    os.close(release)
    os.waitpid(child, 0)
    # Its own end, and not by a signal.
    assert process.returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="ends by a signal")
def test_a_program_whose_pipe_others_hold_ends_in_order() -> None:
    server = Server()
    assert server._program
    process = server._program._process
    held = os.dup(server._program._held.fileno())
    server.close()
    os.close(held)
    # It was told to end, and not killed.
    assert process.returncode == 0
