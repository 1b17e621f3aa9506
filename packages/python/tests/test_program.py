"""Where the program is found, how it starts and how it ends."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import rowkey_server
from rowkey_server import find_program
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
