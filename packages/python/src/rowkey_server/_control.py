"""Requests to the control port, on the standard library alone."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ._errors import ControlError, ServerError, WaitTimeoutError

JSON = dict[str, Any]
#: Clocks are never set back, the secrets of identities are not shown, and a server that is told to end still answers.
_LASTING = ("/v1/clock", "/v1/identities", "/v1/shutdown")


class Control:
    """The control port of one server. Each request has a connection of its own, so any thread may use it."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 30.0) -> None:
        self.url = url.rstrip("/")
        #: What the server wants to see in each request, if it has a token.
        self.token = token
        #: Whether requests were made whose effect lasts beyond a reset.
        self.lasting = False
        self._address = urlsplit(self.url)
        self._timeout = timeout

    def send(
        self,
        method: str,
        path: str,
        body: JSON | None = None,
        query: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> JSON:
        """Sends JSON and returns the JSON of the answer, which is empty if there is none."""
        content = None if body is None else json.dumps(body).encode()
        answer = self.send_bytes(method, path, content, "application/json", query, timeout)
        parsed: JSON = json.loads(answer) if answer else {}
        return parsed

    def send_bytes(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/octet-stream",
        query: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """Sends bytes and returns those of the answer."""
        # Also if it fails: it may have had its effect.
        self.lasting |= method.upper() != "GET" and path.startswith(_LASTING)
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        target = self._address.path + path + (f"?{urlencode(given, quote_via=quote)}" if given else "")
        # The server itself limits how long it waits; this is for one that is gone.
        wait = self._timeout + (timeout or 0.0)
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=wait)
        try:
            headers = {"Connection": "close"} | ({} if body is None else {"Content-Type": content_type})
            if self.token:
                headers["Authorization"] = f"Bearer {self.token}"
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            message = f"{method} {self.url}{path}: the server does not answer ({error!r}); has it been closed?"
            raise ServerError(message) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise _problem(response.status, response.reason, content)
        return content


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _problem(status: int, reason: str, content: bytes) -> ControlError:
    try:
        problem = json.loads(content)
        title, detail = str(problem.get("title", reason)), str(problem.get("detail", ""))
    except (ValueError, AttributeError):
        title, detail = reason, content.decode(errors="replace")
    return (WaitTimeoutError if status == 408 else ControlError)(status, title, detail)
