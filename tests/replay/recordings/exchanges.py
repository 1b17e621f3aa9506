"""Exchanges as rowkey-replay reads them: made of a cassette, and chosen by the files in selection/.

A selection names each run of a recorded test on a line: the test, the day of the recording, a digest of the
result, then an item for each exchange. An item is

    1f0a     the next exchange of the recording with this mark
    1f0aS    with an authorization other than the account key: L lite, W wrong key, N anonymous, S signature
    1f0a.    sent for its effect, and not judged
    +name    creates the table, queue or container that the recorded run found in place; not judged
"""

import base64
import gzip
import hashlib
import json
import pathlib
from email.utils import parsedate_to_datetime
from typing import Any, Iterable, Iterator
from urllib.parse import urlsplit

Exchange = dict[str, Any]
AUTH = {"": "key", "L": "lite", "W": "wrong-key", "N": "anonymous", "S": "sas"}
KEPT = {  # The headers that a client sets or reads. Others depend on the recorder and the connection.
    "request": """accept content-md5 content-type dataserviceversion if-match if-modified-since if-none-match
        if-unmodified-since maxdataserviceversion prefer x-custom-header x-ms-blob-condition-appendpos
        x-ms-blob-content-disposition x-ms-blob-content-language x-ms-blob-content-md5 x-ms-blob-content-type
        x-ms-blob-public-access x-ms-blob-type x-ms-client-request-id x-ms-delete-snapshots
        x-ms-encryption-algorithm x-ms-lease-action x-ms-lease-break-period x-ms-lease-duration x-ms-lease-id
        x-ms-meta x-ms-proposed-lease-id x-ms-range x-ms-range-get-content-md5 x-ms-version""".split(),
    "response": """accept-ranges cache-control content-disposition content-language content-length content-md5
        content-range content-type dataserviceid date etag last-modified location preference-applied
        x-ms-approximate-messages-count x-ms-blob-append-offset x-ms-blob-committed-block-count
        x-ms-blob-content-length x-ms-blob-content-md5 x-ms-blob-public-access x-ms-blob-type
        x-ms-client-request-id x-ms-content-crc64 x-ms-continuation-nextpartitionkey
        x-ms-continuation-nextrowkey x-ms-continuation-nexttablename x-ms-creation-time x-ms-error-code
        x-ms-lease-duration x-ms-lease-id x-ms-lease-state x-ms-lease-status x-ms-lease-time x-ms-popreceipt
        x-ms-request-id x-ms-request-server-encrypted x-ms-server-encrypted x-ms-snapshot
        x-ms-time-next-visible x-ms-version""".split(),
}


class Run:
    """A line of a selection."""

    def __init__(self, folder: str, line: str) -> None:
        self.test, self.day, self.digest, *self.items = line.split()
        self.source = f"{folder}{self.test}.yaml"


def read_selection(path: pathlib.Path) -> list[Run]:
    runs, folder = [], ""
    for line in path.read_text().splitlines():
        if line.startswith("in "):
            folder = line.removeprefix("in ")
        else:
            runs.append(Run(folder, line))
    return runs


def selection(runs: Iterable[list[Exchange]]) -> str:
    """The text of a selection that chooses these runs."""
    lines, folder = [], ""
    for run in runs:
        source = run[0]["source_path"]
        if source.rpartition("/")[0] + "/" != folder:
            folder = source.rpartition("/")[0] + "/"
            lines.append(f"in {folder}")
        lines.append(" ".join([run[0]["test"], day(run), digest(run), *map(item, run)]))
    return "\n".join(lines) + "\n"


def item(exchange: Exchange) -> str:
    request, extra = exchange["request"], exchange["extra"]
    is_setup = extra.get("setup", False)
    if is_creation(exchange):
        return f"+{created(request)}"
    letter = next(letter for letter, name in AUTH.items() if name == extra["auth"])
    return mark(exchange) + letter + ("." if is_setup else "")


def is_creation(exchange: Exchange) -> bool:
    """Whether it is in no recording: one of those that `creating` returns."""
    made = creating(exchange["service"], created(exchange["request"]), exchange)
    return exchange["extra"].get("setup", False) and all(exchange[it] == made[it] for it in ("request", "response"))


def created(request: dict[str, Any]) -> str:
    if request["path_and_query"] == "/Tables" and request["body"]:
        return json.loads(request["body"])["TableName"]
    return urlsplit(request["path_and_query"]).path[1:]


def day(run: list[Exchange]) -> str:
    """The day of a run's first answer, or `-` if the recorder kept no date."""
    dates = (exchange["response"]["headers"].get("date") for exchange in run)
    date = next(filter(None, dates), None)
    return parsedate_to_datetime(date).strftime("%Y-%m-%d") if date else "-"


def mark(exchange: Exchange) -> str:
    """Tells an exchange from the others of its recording."""
    request, response = exchange["request"], exchange["response"]
    date = response["headers"].get("date", "")
    return short(f"{request['method']} {request['path_and_query']} {response['status']} {date}", 4)


def digest(run: list[Exchange]) -> str:
    """Changes with anything that the exchanges of a run hold, but for the times at which something is created."""
    held = []
    for exchange in run:
        extra = {name: value for name, value in exchange["extra"].items() if name != "run"}
        response = {} if is_creation(exchange) else exchange["response"]
        held.append([exchange["service"], exchange["request"], response, extra])
    return short(json.dumps(held, sort_keys=True), 8)


def short(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def chosen(service: str, runs: list[Run], recorded: list[Exchange]) -> list[list[Exchange]]:
    """The exchanges of the runs of one recording. Raises LookupError if it lacks one of them."""
    at, result = 0, []
    marks = [mark(exchange) if exchange["service"] == service else "" for exchange in recorded]
    for run in runs:
        exchanges: list[Exchange] = []
        names: list[str] = []
        for word in run.items:
            if word.startswith("+"):
                names.append(word[1:])
                continue
            try:
                at = marks.index(word[:4], at) + 1
            except ValueError:
                raise LookupError(word) from None
            found = recorded[at - 1]
            exchanges += [creating(service, name, found) for name in names]
            names.clear()
            extra = found["extra"] | {"auth": AUTH[word[4:].rstrip(".")]}
            exchanges.append(found | {"extra": extra | ({"setup": True} if word.endswith(".") else {})})
        result.append(exchanges)
    return result


def creating(service: str, name: str, then: Exchange) -> Exchange:
    """Creates a table, queue or container at the time of the exchange that follows."""
    headers = {"x-ms-version": "2019-02-02"}
    method, target, body, status = "PUT", f"/{name}", None, 201
    if service == "table":
        method, target, body, status = "POST", "/Tables", json.dumps({"TableName": name}), 204
        headers |= {"content-type": "application/json", "prefer": "return-no-content"}
        headers |= {"accept": "application/json;odata=nometadata"}
    elif service == "blob":
        target += "?restype=container"
    date = {name: value for name, value in then["response"]["headers"].items() if name == "date"}
    return {
        "service": service,
        "request": {"method": method, "path_and_query": target, "headers": headers, "body": body},
        "response": {"status": status, "headers": date, "body": ""},
        "extra": {"auth": "key", "setup": True},
    }


def converted(recorded: dict[str, Any]) -> Exchange:
    """An exchange of a cassette, as `cassette.interactions` gives it."""
    uri = urlsplit(recorded["uri"])
    host = (uri.hostname or "").split(".")
    headers = {side: kept(side, recorded[f"{side}_headers"]) for side in KEPT}
    if "x-ms-request-id" in headers["response"]:
        headers["response"]["x-ms-request-id"] = "*"
    extra = {}
    if host[0].endswith("-secondary"):
        extra["host"] = ".".join(["account-secondary", *host[1:]])
    body, extra["req_body_encoding"] = encoded(recorded["request_body"] or None)
    answer, extra["resp_body_encoding"] = encoded(recorded["response_body"])
    target = (uri.path or "/") + (f"?{uri.query}" if uri.query else "")
    return {
        "service": host[1] if len(host) > 1 else "",
        "request": {
            "method": recorded["method"],
            "path_and_query": target,
            "headers": headers["request"],
            "body": body,
        },
        "response": {"status": recorded["status"], "headers": headers["response"], "body": answer},
        "extra": {name: value for name, value in extra.items() if value},
    }


def kept(side: str, headers: dict[str, str]) -> dict[str, str]:
    names = sorted(name for name in headers if name in KEPT[side] or name.startswith("x-ms-meta-"))
    return {name: headers[name] for name in names}


def encoded(body: bytes | None) -> tuple[str | None, str | None]:
    if body is None:
        return None, None
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


def write(path: pathlib.Path, runs: Iterable[tuple[Run, list[Exchange]]]) -> None:
    """One exchange a line. The same exchanges make the same bytes."""
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        for number, (run, exchanges) in enumerate(runs):
            for seq, exchange in enumerate(exchanges):
                where = {"source_path": run.source, "test": run.test, "seq": seq}
                line = where | exchange | {"extra": {"run": number, **exchange["extra"]}}
                file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def place(exchange: Exchange) -> tuple[str, int]:
    return exchange["source_path"], exchange["extra"]["run"]


def read(path: pathlib.Path) -> Iterator[list[Exchange]]:
    """The runs of a file."""
    run: list[Exchange] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            exchange = json.loads(line)
            if run and place(exchange) != place(run[0]):
                yield run
                run = []
            run.append(exchange)
    if run:
        yield run
