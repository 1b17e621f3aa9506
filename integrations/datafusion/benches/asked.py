"""One question, asked as a program in Python would: asked.py pandas|export|partitions group|join TABLE. Prints the result as JSON.

`export` runs `rowkey export` and reads the file with DuckDB. `partitions` is a program that knows that the join needs three partitions, and asks for
these alone.
"""

import json
import os
import subprocess
import sys
import tempfile

STATE = "AS"  # has three airports


def tables():
    from azure.data.tables import TableServiceClient

    return TableServiceClient.from_connection_string(os.environ["ROWKEY_CONNECTION_STRING"])


def frame(client, table, columns, condition=None):
    import pandas

    client = client.get_table_client(table)
    found = client.query_entities(condition, select=columns) if condition else client.list_entities(select=columns)
    # An Int64 is a pair of its value and its type.
    rows = [[entity[column].value if hasattr(entity[column], "value") else entity[column] for column in columns] for entity in found]
    return pandas.DataFrame(rows, columns=columns)


def by_pandas(question, table):
    client = tables()
    if question == "group":
        orders = frame(client, table, ["Product", "Cents", "Price"])
        grouped = orders.groupby("Product").agg(n=("Cents", "size"), cents=("Cents", "sum"), price=("Price", "mean"))
        return [[product, *row] for product, row in zip(grouped.index, grouped.itertuples(index=False))]
    airports = frame(client, "airports", ["PartitionKey", "RowKey", "Name"])
    airports = airports[airports["PartitionKey"] == STATE]
    orders = frame(client, table, ["PartitionKey", "Cents"])
    return joined(airports, orders)


def joined(airports, orders):
    both = airports.merge(orders, left_on="RowKey", right_on="PartitionKey")
    grouped = both.groupby(["RowKey", "Name"]).agg(n=("Cents", "size"), cents=("Cents", "sum"))
    return [[*names, *row] for names, row in zip(grouped.index, grouped.itertuples(index=False))]


def by_partitions(question, table):
    import pandas

    client = tables()
    airports = frame(client, "airports", ["PartitionKey", "RowKey", "Name"], f"PartitionKey eq '{STATE}'")
    parts = [frame(client, table, ["PartitionKey", "Cents"], f"PartitionKey eq '{code}'") for code in airports["RowKey"]]
    return joined(airports, pandas.concat(parts))


def by_export(question, table):
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        for name in [table] if question == "group" else [table, "airports"]:
            subprocess.run([os.environ["ROWKEY"], "export", name, f"{folder}/{name}.parquet"], check=True, capture_output=True)
            duckdb.sql(f"CREATE VIEW {name} AS SELECT * FROM '{folder}/{name}.parquet'")
        return [list(row) for row in duckdb.sql(sql(question, table)).fetchall()]


def sql(question, table):
    if question == "group":
        return f"SELECT Product, count(*) AS n, sum(Cents) AS cents, avg(Price) AS price FROM {table} GROUP BY Product"
    return (
        f"SELECT a.RowKey AS code, a.Name AS name, count(*) AS n, sum(o.Cents) AS cents FROM airports a JOIN {table} o ON o.PartitionKey = a.RowKey "
        f"WHERE a.PartitionKey = '{STATE}' GROUP BY a.RowKey, a.Name"
    )


if __name__ == "__main__":
    how = {"pandas": by_pandas, "partitions": by_partitions, "export": by_export}[sys.argv[1]]
    print(json.dumps(how(*sys.argv[2:4]), default=float))
