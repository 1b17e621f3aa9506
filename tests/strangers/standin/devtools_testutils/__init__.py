"""Stands in for `devtools_testutils`, with which the Azure SDK's own tests are written and which is not published.

Tests run live, without the recording proxy, against the endpoints in STRANGERS_TABLE, STRANGERS_QUEUE and
STRANGERS_BLOB (each ends with the account's name). Inside a recorded test the accounts are the emulator's;
outside, where nothing is sent, they have the URLs that Azure gives them.
"""

import functools
import inspect
import os
import zlib

from . import accounts, waiting
from .accounts import Account, Secret
from .credentials import FakeTokenCredential, bearer_credential


def is_live():
    return True


def get_credential(*, is_async=False, **_):
    return bearer_credential(is_async)


def trimmed(function, arguments):
    """The arguments that a function takes: all of them where it takes any."""
    spec = inspect.getfullargspec(function)
    names = [*spec.args, *spec.kwonlyargs]
    return {name: it for name, it in arguments.items() if spec.varkw or name in names}


def around(function, enter, passed=()):
    """Wraps a test, sync or async: `enter` is a context manager whose value has the parameters named in `passed`.

    pytest sees the other parameters, as well as the test's marks.
    """
    if inspect.iscoroutinefunction(function):

        async def wrapper(*args, **kwargs):
            with enter() as more:
                return await function(*args, **trimmed(function, {**kwargs, **more}))

    else:

        def wrapper(*args, **kwargs):
            with enter() as more:
                return function(*args, **trimmed(function, {**kwargs, **more}))

    wrapper.__dict__.update(function.__dict__)
    wrapper.__name__, wrapper.__doc__ = function.__name__, function.__doc__
    signature = inspect.signature(function)
    seen = [it for name, it in signature.parameters.items() if name not in passed]
    wrapper.__signature__ = signature.replace(parameters=seen)
    return wrapper


def recorded_by_proxy(function=None, **_):
    """Marks a test that talks to the service."""
    if function is None:
        return recorded_by_proxy
    return around(function, accounts.emulated)


class PowerShellPreparer:
    """Passes the accounts that the suite asks for, all of which are the same one here."""

    hidden = ()

    def __init__(self, directory, **names):
        self.options = names.pop("options", None)
        self.hidden = tuple(getattr(self.options, "hide_secrets", ()))
        self.values = {name: self._value(name, fallback) for name, fallback in names.items()}

    def _value(self, name, fallback):
        if name.endswith("account_key"):
            return Secret(accounts.KEY) if name in self.hidden else accounts.KEY
        if name.endswith("account_name"):
            return Account(accounts.NAME)
        return fallback

    def __call__(self, function):
        return around(function, functools.partial(accounts.passing, self.values), self.values)


EnvironmentVariableLoader = PowerShellPreparer


class EnvironmentVariableOptions:
    def __init__(self, *, hide_secrets=(), **_):
        self.hide_secrets = hide_secrets


class AzureRecordedTestCase:
    is_live = True
    in_recording = False

    @property
    def qualified_test_name(self):
        return os.environ["PYTEST_CURRENT_TEST"].rsplit(" ", 1)[0]

    def is_playback(self):
        return False

    def create_random_name(self, name):
        """The same name for the same prefix throughout a test, and another in every other."""
        return f"{name}{zlib.adler32(self.qualified_test_name.encode()):x}"

    get_resource_name = create_random_name

    def get_settings_value(self, name):
        return os.environ.get(f"AZURE_{name}", "00000000-0000-0000-0000-000000000000")

    def get_credential(self, client_class, is_async=False, **_):
        return bearer_credential(is_async)

    def sleep(self, seconds):
        waiting.sleep(seconds)

    def generate_sas(self, function, *args, fake_value=None, **kwargs):
        return function(*args, **kwargs)


class ResponseCallback:
    """Changes statuses of answers that come by."""

    def __init__(self, status=None, new_status=None):
        self.status, self.new_status = status, new_status
        self.first, self.count = True, 0

    def _override(self, response):
        met = response.http_response.status_code == self.status
        if met:
            response.http_response.status_code = self.new_status
        return met

    def override_first_status(self, response):
        self.count += 1
        if self.first and self._override(response):
            self.first = False

    def override_status(self, response):
        self.count += 1
        self._override(response)


class RetryCounter:
    def __init__(self):
        self.count = 0

    def simple_count(self, retry_context):
        self.count += 1


def _of_the_proxy(*_, **__):
    """What tells the recording proxy what to hide or to compare."""


set_bodiless_matcher = set_custom_default_matcher = remove_batch_sanitizers = _of_the_proxy
add_general_regex_sanitizer = add_general_string_sanitizer = add_oauth_response_sanitizer = _of_the_proxy
add_body_key_sanitizer = add_body_regex_sanitizer = add_header_regex_sanitizer = _of_the_proxy
add_remove_header_sanitizer = add_uri_regex_sanitizer = add_uri_string_sanitizer = _of_the_proxy


def test_proxy():
    """Imported by every conftest; the fixture itself is in the plugin `strangers`."""


test_proxy.__test__ = False
