"""How long tests wait. They wait for the service to apply properties and policies, and to free the names of tables,
for which an emulator needs no time: those pauses are left out. Leases and the times of signatures are waited for.
"""

import os
import sys
import time

_sleep = time.sleep


def sleep(seconds):
    """`self.sleep` of a test, or of what tidies up after all tests of tables (`_shared/testcase.py`)."""
    if _caller(2) != "testcase.py":
        _sleep(seconds)


def _unless_propagating(seconds):
    if not (_caller(1).startswith("test_") and seconds > 10):
        _sleep(seconds)


def _caller(depth):
    return os.path.basename(sys._getframe(depth + 1).f_code.co_filename)


def shorten():
    time.sleep = _unless_propagating
