"""The queries of `queries.py`, answered by DuckDB and by `rowkey-sql`: the same rows, or exit code 1.

`run` starts this with ROWKEY, ROWKEY_SQL and ROWKEY_CONNECTION_STRING set.
"""

import argparse
import collections
import concurrent.futures
import functools
import io
import json
import os
import subprocess
import sys
import time

import duckdb
import pyarrow
import pyarrow.parquet

import compare
import data
import queries

TIMEOUT = float(os.environ.get("ROWKEY_SQL_TIMEOUT", "120"))


def rowkey(*arguments, text=None):
    done = subprocess.run([os.environ["ROWKEY"], *arguments], input=text, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"rowkey {arguments[0]}: exit code {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


def fill(tables):
    """Writes the tables to the account."""
    for table in tables.values():
        rowkey("import", table.name, "-", text="".join(table.json_lines()).encode())
        count = json.loads(rowkey("count", table.name, "--json"))["entities"]
        if count != len(table.rows):
            sys.exit(f"the table {table.name} holds {count - len(table.rows)} entities that are not of this run; drop it, or use another account")


def ask(sql, flags):
    """The result of a query as an Arrow table, or text that says what went wrong."""
    arguments = [os.environ["ROWKEY_SQL"], *flags, "--scan", "--output", "parquet", "-c", sql]
    try:
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"no result within {TIMEOUT:g} s"
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-800:].strip()}"
    try:
        return pyarrow.parquet.read_table(io.BytesIO(done.stdout))
    except Exception as error:
        return f"the output is not a Parquet file: {error}; {len(done.stdout)} bytes; {done.stderr.decode(errors='replace')[-800:].strip()}"


def datafusion_itself(tables):
    """A function that asks DataFusion: whether a difference comes from the query, or from rowkey-datafusion."""
    import datafusion

    # Names as they are written, as in rowkey-sql.
    config = datafusion.SessionConfig().set("datafusion.sql_parser.enable_ident_normalization", "false")
    session = datafusion.SessionContext(config)
    for table in tables.values():
        session.register_record_batches(f'"{table.name}"', [table.arrow().to_batches(max_chunksize=300)])

    def ask_itself(sql):
        try:
            frame = session.sql(sql)
            return pyarrow.Table.from_batches(frame.collect(), schema=frame.schema())
        except Exception as error:
            return str(error)

    return ask_itself


def judge(expected, found, is_ordered):
    return [found] if isinstance(found, str) else compare.difference(expected, found, is_ordered)


def main():
    parser = argparse.ArgumentParser(prog="run", description="Generated queries, answered by DuckDB and by rowkey-sql.")
    parser.add_argument("--seed", type=int, default=1, help="of the data and of the queries; default: 1")
    parser.add_argument("--count", type=int, default=200, help="of queries; default: 200")
    parser.add_argument("--jobs", type=int, default=2, help="queries at once; default: 2")
    parser.add_argument("--only", type=int, action="append", help="only the query with this number; may be repeated")
    parser.add_argument("--no-fill", action="store_true", help="the tables hold the data of this seed already")
    parser.add_argument("--datafusion", action="store_true", help="ask DataFusion itself on the same data, not rowkey-sql")
    parser.add_argument("--print", action="store_true", help="print the queries, and ask nothing")
    parser.add_argument("flags", nargs="*", help="behind `--`: flags of rowkey-sql, such as --scheduler HOST:PORT and --splits N")
    options = parser.parse_args()

    tables = data.tables(options.seed)
    # All are made, so that a number is that of the same query with --only.
    chosen = list(enumerate(queries.Generator(options.seed, tables).queries(options.count), 1))
    chosen = [(number, query) for number, query in chosen if not options.only or number in options.only]
    if options.print:
        for number, query in chosen:
            print(f"-- {number}: {query.kind}\n{query.sql};")
        return
    connection = duckdb.connect()
    data.load(connection, tables)
    if options.datafusion:
        asked = datafusion_itself(tables)
    else:
        asked = functools.partial(ask, flags=options.flags)
        if not options.no_fill:
            fill(tables)

    there = "DataFusion" if options.datafusion else "rowkey-sql"
    started, same, rows, empty = time.monotonic(), 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda pair: asked(pair[1].sql), chosen)
        for (number, query), found in zip(chosen, results):
            expected = connection.sql(query.sql).to_arrow_table()
            rows, empty = rows + expected.num_rows, empty + (expected.num_rows == 0)
            lines = judge(expected, found, query.is_ordered)
            same += not lines
            if lines:
                print(f"\nquery {number}, {query.kind} (here: DuckDB, there: {there})\n  {query.sql}", *lines, sep="\n  ", flush=True)
    kinds = collections.Counter(query.kind for _, query in chosen)
    features = collections.Counter(name for _, query in chosen for name in query.features())
    print("\nkinds:", ", ".join(f"{name} {count}" for name, count in kinds.items()))
    print("with:", ", ".join(f"{name} {count}" for name, count in features.items()))
    print(f"{rows} rows, {empty} queries without rows, {time.monotonic() - started:.1f} s")
    print(f"{same} of {len(chosen)} queries give the rows of DuckDB")
    sys.exit(same != len(chosen))


if __name__ == "__main__":
    main()
