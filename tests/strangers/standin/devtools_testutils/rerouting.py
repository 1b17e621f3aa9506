"""Some tests write Azure's host names themselves. What is sent there goes to the emulator, with `Host` unchanged."""

import os
import urllib.parse

import aiohttp
import requests
import yarl

from . import accounts

SUFFIX = ".core.windows.net"


def emulated(url):
    """The emulator's address for a URL of Azure's, and the host that was meant; `None` for every other."""
    parts = urllib.parse.urlsplit(url)
    account, _, service = (parts.hostname or "").removesuffix(SUFFIX).partition(".")
    if not (parts.hostname or "").endswith(SUFFIX) or account.removesuffix("-secondary") != accounts.NAME:
        return None
    base = os.environ[f"STRANGERS_{'HTTPS_' if accounts.bearing else ''}{service.upper()}"]
    where = urllib.parse.urlsplit(base)
    return parts._replace(scheme=where.scheme, netloc=where.netloc).geturl(), parts.hostname


def install():
    send, request = requests.adapters.HTTPAdapter.send, aiohttp.ClientSession._request

    def rerouted_send(self, prepared, *args, **kwargs):
        if there := emulated(prepared.url):
            prepared.url, prepared.headers["Host"] = there
        return send(self, prepared, *args, **kwargs)

    async def rerouted_request(self, method, url, *args, **kwargs):
        if there := emulated(str(url)):
            url = yarl.URL(there[0], encoded=True)
            kwargs["headers"] = {**(kwargs.get("headers") or {}), "Host": there[1]}
        return await request(self, method, url, *args, **kwargs)

    requests.adapters.HTTPAdapter.send, aiohttp.ClientSession._request = rerouted_send, rerouted_request
