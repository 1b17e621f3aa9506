"""The pytest plugin of the stand-in: fixtures and marks that the SDK's repository defines for all its suites."""

import ast
import fcntl
import functools
import pathlib
import re
import tempfile

import pytest

from devtools_testutils import accounts, rerouting, waiting

LOCK = pathlib.Path(tempfile.gettempdir()) / "strangers-service-properties.lock"
MARKS = "live_test_only", "playback_test_only"
TOKENS = (
    "get_credential",
    "get_token_credential",
    "generate_oauth_token",
    "generate_fake_token_credential",
    "DefaultAzureCredential",
)


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}: of the SDK's own test proxy")
    waiting.shorten()
    rerouting.install()


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("playback_test_only"):
            item.add_marker(pytest.mark.skip(reason="needs a recording"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if "service_properties" not in item.path.name:
        return (yield)
    # There is one set of properties: one process at a time. (The groups of pytest-xdist 3.8 do nothing with pytest 9.2.)
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (yield)


def pytest_runtest_setup(item):
    accounts.sending = item.get_closest_marker("live_test_only") is not None
    accounts.bearing = bears_tokens(item.path, item.cls.__name__ if item.cls else "", item.originalname)


def bears_tokens(path, holder, name):
    """Whether a test asks for a token, itself or in a method of its class. Decorators hide its code, so its file tells."""
    functions = sources(path)
    text = functions.get((holder, name), "")
    for callee in re.findall(r"self\.(\w+)\(", text):
        text += functions.get((holder, callee), "")
    return any(f"{it}(" in text for it in TOKENS)


@functools.cache
def sources(path):
    text = path.read_text()
    found = {}
    for node in ast.parse(text).body:
        for it in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(it, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = text.splitlines()[it.lineno - 1 : it.end_lineno]
                found[node.name if it is not node else "", it.name] = "\n".join(lines)
    return found


@pytest.fixture(scope="session")
def test_proxy():
    """There is none: requests go to the server."""
