"""The comparison itself: DuckDB equals itself through Parquet, and no planted mistake passes. `run --self-test`"""

import collections
import io
import random

import duckdb
import pyarrow
import pyarrow.compute
import pyarrow.parquet

import compare
import data
import queries


def through_parquet(table, shuffled=None):
    """The table as a program would write it: a file of Parquet, in another order if the order is not determined."""
    if shuffled and table.num_rows > 1:
        order = list(range(table.num_rows))
        shuffled.shuffle(order)
        table = table.take(order)
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, row_group_size=500)
    return pyarrow.parquet.read_table(io.BytesIO(file.getvalue()))


def with_cell(table, row, column, value):
    """The table with another value in a cell."""
    changed = table.column(column).to_pylist()
    changed[row] = value
    return table.set_column(column, table.schema.field(column), pyarrow.array(changed, table.schema.field(column).type))


def other(value):
    """A value that is wrong, and as near as can be."""
    if value is None:
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        # Of -0.0 the sign is wrong, and NaN and infinities become numbers.
        return -value if value == 0 else value * (1 + 1e-6) if 1e-3 < abs(value) < 1e300 else 1.5
    if isinstance(value, str):
        return value + " "
    return value + b"\0" if isinstance(value, bytes) else value + 1


def planted(table, chosen, is_ordered):
    """Wrong results with what is wrong."""
    count = table.num_rows
    row = chosen.randrange(count)
    yield "a row is missing", pyarrow.concat_tables([table.slice(0, row), table.slice(row + 1)])
    yield "a row is there twice", pyarrow.concat_tables([table, table.slice(row, 1)])
    yield "no rows", table.slice(0, 0)
    yield "another name", table.rename_columns(["other", *table.column_names[1:]])
    yield "columns are exchanged", table.select([*table.column_names[1:], table.column_names[0]])
    for column in range(table.num_columns):
        of = table.schema.field(column).type
        if pyarrow.types.is_timestamp(of):
            numbers = table.column(column).cast(pyarrow.int64())
            if numbers[row].as_py() is not None:
                later = pyarrow.compute.add(numbers, pyarrow.array([int(number == row) for number in range(count)]))
                yield f"column {column} is later by its unit", table.set_column(column, table.schema.field(column), later.cast(of))
        elif table.column(column)[row].as_py() is not None:
            value = table.column(column)[row].as_py()
            yield f"column {column} has another value", with_cell(table, row, column, other(value))
            yield f"column {column} has a NULL", with_cell(table, row, column, None)
    if is_ordered and count > 1:
        yield "two rows are exchanged", table.take([*range(count - 2), count - 1, count - 2])


def test_duckdb_equals_itself_and_mistakes_are_found():
    chosen, mistakes = random.Random(7), collections.Counter()
    tables = data.tables(1)
    connection = duckdb.connect()
    data.load(connection, tables)
    asked = list(queries.Generator(1, tables).queries(200))
    for query in asked:
        expected = connection.sql(query.sql).to_arrow_table()
        again = through_parquet(connection.sql(query.sql).to_arrow_table(), None if query.is_ordered else chosen)
        lines = compare.difference(expected, again, query.is_ordered)
        assert not lines, (query.sql, lines)
        if expected.num_rows == 0:
            continue
        for what, wrong in planted(expected, chosen, query.is_ordered):
            if what == "columns are exchanged" and expected.num_columns == 1:
                continue
            assert compare.difference(expected, wrong, query.is_ordered), (what, query.sql)
            mistakes[" ".join(word for word in what.split() if not word.isdigit())] += 1
    assert all(mistakes[name] > 5 for name in mistakes), mistakes
    print(f"{sum(mistakes.values())} mistakes in the results of {len(asked)} queries are found")


def test_there_are_ten_queries_of_each_kind():
    tables = data.tables(1)
    asked = list(queries.Generator(1, tables).queries(200))
    kinds = collections.Counter(query.kind for query in asked)
    features = collections.Counter(name for query in asked for name in query.features())
    assert min(kinds.values()) >= 10, kinds
    assert all(features[name] >= 10 for name in queries.FEATURES), features
    assert len({query.sql for query in asked}) >= 190
    assert [query.sql for query in asked] == [query.sql for query in queries.Generator(1, data.tables(1)).queries(200)]


def test_the_data_has_what_it_promises():
    tables = data.tables(1)
    assert [len(table.rows) for table in tables.values()] == [3_400, 2_000, 60]
    for table in tables.values():
        for column, edm in table.columns.items():
            count = len(table.values(column))
            assert 0 < count < len(table.rows), (table.name, column)
            stored = collections.Counter(row[column][0] for row in table.rows if column in row)
            assert set(stored) == set(edm.split(" or ")), (table.name, column, stored)
    orders = tables["Orders"]
    assert sum(value != value for value in orders.values("Ratio")) > 20
    assert any(str(value) == "-0.0" for value in orders.values("Ratio"))
    assert "" in orders.values("RowKey") and "" in orders.values("PartitionKey") and "" in orders.values("Note") and b"" in orders.values("Data")
    units = sorted({row["PartitionKey"] for row in orders.rows}, key=lambda key: key.encode("utf-16-be"))
    assert units != sorted(units), "the orders of keys do not differ"


if __name__ == "__main__":
    for test in [test_the_data_has_what_it_promises, test_there_are_ten_queries_of_each_kind, test_duckdb_equals_itself_and_mistakes_are_found]:
        test()
        print(f"{test.__name__}: passed")
