"""The account that tests use, and where it is: over HTTP, and for tests with bearer tokens over HTTPS."""

import contextlib
import os

NAME, KEY = os.environ["STRANGERS_ACCOUNT"], os.environ["STRANGERS_KEY"]

# Whether the test that runs sends anything, and whether it does so with bearer tokens, which need HTTPS.
sending = False
bearing = False


@contextlib.contextmanager
def emulated():
    """While a recorded test runs, URLs of accounts are the emulator's."""
    global sending
    before, sending = sending, True
    try:
        yield {}
    finally:
        sending = before


def passing(values):
    return contextlib.nullcontext(values)


def url(account, service):
    if sending and account == NAME:
        return os.environ[f"STRANGERS_{'HTTPS_' if bearing else ''}{service.upper()}"]
    return f"https://{account}.{service}.core.windows.net"


class Account(str):
    """An account's name, which the suite of tables asks for its endpoints as well."""

    @property
    def primary_endpoints(self):
        if not sending:
            raise AttributeError("nothing is sent")
        return self

    @property
    def table(self):
        return url(self, "table")


class Secret:
    """A key where the suite asks that it does not get into logs."""

    def __init__(self, secret):
        self.secret = secret
