"""Time, requests and memory of the same questions in three programs. `run` starts this.

Every result is compared with that of the data itself before a figure is printed. Time is that of a whole process, start included; memory is the peak of
the largest process, as GNU time reports it.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

import asked

HERE = pathlib.Path(__file__).resolve().parent
AIRPORTS = HERE.parents[2] / "examples/data/airports.csv"
# MiB for grouping the many rows.
GOAL = 256
PRODUCTS = [f"{material} {thing}" for material in ["steel", "brass", "nylon", "oak"] for thing in ["bolt", "nut", "washer", "gear", "hinge"]]


class Truth:
    """What the questions must be answered with."""

    def __init__(self):
        self.groups, self.codes = {}, {}

    def add(self, code, product, cents, price):
        for key, of in ((product, self.groups), (code, self.codes)):
            n, total, prices = of.get(key, (0, 0, 0.0))
            of[key] = (n + 1, total + cents, prices + price)

    def expected(self, question, names):
        if question == "group":
            return sorted([product, n, cents, prices / n] for product, (n, cents, prices) in self.groups.items())
        return sorted([code, names[code], *self.codes[code][:2]] for code in names if code in self.codes)


def seeds(folder, counts):
    """Writes the airports and a table of orders for each count; returns the truth of each and the names of the three airports."""
    airports = list(csv.DictReader(open(AIRPORTS, newline="")))
    with open(folder / "airports.jsonl", "w") as file:
        for row in airports:
            place = {name.capitalize(): {"Edm.Double": str(float(row[name]))} for name in ("latitude", "longitude")}
            entity = {"PartitionKey": row["state"], "RowKey": row["iata"], "Name": row["name"], "City": row["city"], **place}
            file.write(json.dumps(entity) + "\n")
    names = {row["iata"]: row["name"] for row in airports if row["state"] == asked.STATE}
    chance, truths = random.Random(1), {}
    codes = [*names, *(row["iata"] for row in chance.sample(airports, 197) if row["iata"] not in names)]
    for table, count in counts.items():
        truth = truths[table] = Truth()
        with open(folder / f"{table}.jsonl", "w") as file:
            for number in range(count):
                # The square makes partitions uneven; the three are in the middle of it.
                code = codes[(int(len(codes) * chance.random() ** 2) + 150) % len(codes)]
                product, cents, price = chance.choice(PRODUCTS), chance.randrange(10_000_000_000), chance.randrange(100, 100_000) / 100
                truth.add(code, product, cents, price)
                file.write(
                    f'{{"PartitionKey":"{code}","RowKey":"order_{number:07}","Product":"{product}","Cents":{{"Edm.Int64":"{cents}"}},'
                    f'"Price":{{"Edm.Double":"{price}"}},"Quantity":{number % 50},"Paid":{"true" if number % 3 else "false"},'
                    f'"Created":{{"Edm.DateTime":"2026-{number % 12 + 1:02}-{number % 28 + 1:02}T12:34:56.{number:07}Z"}},'
                    f'"Id":{{"Edm.Guid":"{uuid.UUID(int=chance.getrandbits(128))}"}},"Customer":"customer {number % 1_000}","Note":"{"note " * 8}{number % 77}"}}\n'
                )
    return truths, names


class Server:
    """rowkey-server with the seeds."""

    def __init__(self, folder):
        arguments = [os.environ["ROWKEY_SERVER"], "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--control-port", "0", "--silent"]
        environment = {name: value for name, value in os.environ.items() if name != "AZURITE_ACCOUNTS"}
        self.process = subprocess.Popen([*arguments, "--seed", str(folder)], stdout=subprocess.PIPE, env=environment, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"rowkey-server ended with exit code {self.process.wait()}")
        ready = json.loads(line)
        self.control = ready["control"]
        os.environ["ROWKEY_CONNECTION_STRING"] = ready["connectionString"]

    def requests(self):
        """Requests to tables so far."""
        with urllib.request.urlopen(f"{self.control}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith('rowkey_server_requests_total{service="table"'))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def command(how, question, table):
    if how == "rowkey-sql":
        return [os.environ["ROWKEY_SQL"], "--scan", "--output", "json", "-c", asked.sql(question, table)]
    return [sys.executable, str(HERE / "asked.py"), how, question, table]


def rows(how, text):
    """The rows that a program printed."""
    if how != "rowkey-sql":
        return sorted(json.loads(text))
    decoded = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]
    return sorted(list(row.values()) for row in decoded)


def is_right(found, expected):
    def same(one, other):
        return abs(one - other) <= 1e-9 * abs(other) if isinstance(other, float) else one == other

    return len(found) == len(expected) and all(len(a) == len(b) and all(map(same, a, b)) for a, b in zip(found, expected))


def measure(server, how, question, table, expected):
    """Seconds, requests, MiB of one process."""
    before, started = server.requests(), time.monotonic()
    with tempfile.NamedTemporaryFile("r") as usage:
        # GNU time starts the process from a small one: by wait4, the peak of a child of this program would be at least that of this program.
        timed = ["/usr/bin/time", "--format", "%M", "--output", usage.name, *command(how, question, table)]
        done = subprocess.run(timed, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        seconds = time.monotonic() - started
        if done.returncode != 0:
            sys.exit(f"{how}, {question} of {table}: exit code {done.returncode}")
        memory = int(usage.read()) / 1024
    if not is_right(rows(how, done.stdout), expected):
        sys.exit(f"{how}, {question} of {table}: the result is wrong\n{done.stdout[:500]}\nexpected {str(expected)[:500]}")
    return seconds, server.requests() - before, memory


def main():
    parser = argparse.ArgumentParser(prog="run", description="The same questions by pandas, by rowkey-sql, and by an export that DuckDB reads.")
    parser.add_argument("--rounds", type=int, default=5, help="of each; the median is printed; default: 5")
    parser.add_argument("--orders", type=int, default=100_000, help="rows of the table that is grouped and joined; default: 100,000")
    parser.add_argument("--many", type=int, default=1_000_000, help="rows of the table that rowkey-sql groups for its memory, 0 for none; default: 1,000,000")
    parser.add_argument("--only", action="append", help="a program: pandas, partitions, rowkey-sql or export; may be repeated")
    options = parser.parse_args()
    # Stopped by another program, it stops the server, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    with tempfile.TemporaryDirectory() as folder:
        counts = {"orders": options.orders} | ({"many": options.many} if options.many else {})
        truths, names = seeds(pathlib.Path(folder), counts)
        server = Server(folder)
        try:
            print("| question | by | s | requests | MiB |\n|---|---|---|---|---|", flush=True)
            asking = [(question, how, "orders", options.rounds) for question in ("group", "join") for how in ("pandas", "rowkey-sql", "export")]
            asking.append(("join", "partitions", "orders", options.rounds))
            if options.many:
                asking.append(("group", "rowkey-sql", "many", 1))
            for question, how, table, rounds in asking:
                if options.only and how not in options.only:
                    continue
                expected = truths[table].expected(question, names)
                figures = [measure(server, how, question, table, expected) for _ in range(rounds)]
                seconds, requests, memory = (statistics.median(column) for column in zip(*figures))
                title = f"{question} {counts[table]:,}" if question == "group" else "join with three airports"
                print(f"| {title} | {how} | {seconds:.2f} | {requests:.0f} | {memory:.0f} |", flush=True)
                if table == "many" and memory > GOAL:
                    sys.exit(f"goal missed: {memory:.0f} MiB, and {GOAL} were to be enough")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
