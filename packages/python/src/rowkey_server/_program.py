"""The program: where it is, how it is started, and how it ends."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import sysconfig
import threading
from collections import deque
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import TypeVar
from weakref import WeakSet

from ._control import JSON
from ._errors import StartError

_NAME = "rowkey-server" + (".exe" if sys.platform == "win32" else "")
# Accounts of the machine would not be the one that the ready line names, and the control port is chosen here. The token
# is passed on as what `control_token` returns.
_NOT_PASSED_ON = ("AZURITE_ACCOUNTS", "ROWKEY_CONTROL_PORT", "ROWKEY_CONTROL_TOKEN")
_Path = TypeVar("_Path", bound=PurePath)
#: What the ready line has in each version.
_READY = ("connectionString", "table", "queue", "blob")
#: How many lines of the program's log an error shows.
_SHOWN_LINES = 40


def find_program() -> str:
    """The path of the packaged program. The variable `ROWKEY_SERVER` names another one."""
    named = os.environ.get("ROWKEY_SERVER")
    if named:
        return named
    # The first, because another version may be in the environment.
    folders = [str(folder) for folder in _folders_beside(Path(__file__).resolve().parent, sys.platform == "win32")]
    folders.append(sysconfig.get_path("scripts"))
    if hasattr(sysconfig, "get_preferred_scheme"):
        folders.append(sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")))
    for folder in folders:
        path = Path(folder) / _NAME
        if path.is_file():
            return str(path)
    raise StartError(
        f"the program {_NAME} is in none of {', '.join(folders)}; install the wheel again (pip install --force-reinstall "
        "rowkey-server), or name a program in the variable ROWKEY_SERVER"
    )


def control_token(flags: Sequence[str]) -> str | None:
    """The token of the control port: that of the flags, or of the variable `ROWKEY_CONTROL_TOKEN`."""
    token = os.environ.get("ROWKEY_CONTROL_TOKEN")
    for flag, following in zip_longest(flags, flags[1:]):
        name, equals, value = flag.partition("=")
        if name == "--control-token":
            token = value if equals else following
    return token or None


def _folders_beside(module: _Path, windows: bool) -> list[_Path]:
    """Where pip puts programs for a module in this folder, with `--target` and with `--prefix`."""
    names = ["Scripts", "bin"] if windows else ["bin"]
    roots = [module.parent]
    # `lib/python3.12/site-packages`, or on Windows `Lib/site-packages`.
    depth = 2 if windows else 3
    if module.parent.name in ("site-packages", "dist-packages") and len(module.parents) > depth + 1:
        roots.append(module.parents[depth])
    return [root / name for root in roots for name in names]


class Program:
    """A running program. It ends with this process, however that ends, because its standard input is then closed."""

    def __init__(self, program: str, flags: Sequence[str], token: str | None, timeout: float) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
        if token:
            environment["ROWKEY_CONTROL_TOKEN"] = token
        stdin, held = os.pipe()
        # Without a buffer, and so without a lock that another thread may hold when this process forks.
        self._held = open(held, "wb", buffering=0)
        try:
            self._process = subprocess.Popen(
                [program, "--end-with-stdin", *flags],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            self._held.close()
            raise StartError(f"cannot start {program}: {error}") from error
        finally:
            os.close(stdin)
        _programs.add(self)
        self._log: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._reader = threading.Thread(target=self._read_log, name="rowkey-server log", daemon=True)
        self._reader.start()
        try:
            #: The line of JSON that the program printed when it was ready.
            self.ready = self._wait_until_ready(program, timeout)
        except BaseException:
            self.close()
            raise

    def log(self) -> str:
        """The last lines that the program logged."""
        return "\n".join(self._log)

    def is_running(self) -> bool:
        """Whether the program has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the program and waits until it has ended."""
        process = self._process
        self.let_go()
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            # Another process may hold the pipe: one that was forked without Python's knowledge. A signal ends it as well,
            # except on Windows, where it would not write the data of `--location`.
            if os.name == "posix":
                process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # The end of the log, for errors. The thread holds the pipe, which ends with the program.
        self._reader.join(1)
        if process.stdout:
            process.stdout.close()

    def let_go(self) -> None:
        """Closes its standard input. It ends when all processes have done so."""
        self._held.close()

    def _wait_until_ready(self, program: str, timeout: float) -> JSON:
        lines: queue.Queue[bytes] = queue.Queue()
        stdout = self._process.stdout
        assert stdout is not None
        # A pipe has no timeout on every system, and a queue has.
        threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=timeout)
        except queue.Empty:
            raise StartError(self._message(f"{program} was not ready after {timeout} s")) from None
        if not line:
            self.close()
            ended = f"ended with the code {self._process.returncode} before it was ready"
            raise StartError(self._message(f"{program} {ended}"))
        try:
            ready = json.loads(line)
        except ValueError:
            ready = None
        # The line itself is not shown, because it may have keys.
        if not isinstance(ready, dict) or not all(isinstance(ready.get(name), str) for name in _READY):
            raise StartError(self._message(f"{program} did not print the line of a rowkey-server that is ready"))
        if not isinstance(ready.get("control"), str):
            raise StartError(f"{program} has no control port; it is of an older version than this package")
        return ready

    def _message(self, what: str) -> str:
        return f"{what}; it logged:\n{self.log() or '(nothing)'}"

    def _read_log(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with stderr:
            for line in stderr:
                self._log.append(line.decode(errors="replace").rstrip())


#: Those of this process. A process that it forks is not to keep them alive.
_programs: WeakSet[Program] = WeakSet()


def _let_go_of_all() -> None:
    for program in list(_programs):
        program.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_of_all)
