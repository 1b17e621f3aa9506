"""200 queries in the dialect that DuckDB and DataFusion share, from a seed.

What the two define differently does not occur: division of integers, the order of rows without ORDER BY, NULLs without FIRST or LAST, 0.0 beside
-0.0, and sums that do not fit in 64 bits.
"""

import dataclasses
import random
import re

from predicates import ODD_BOUNDS, Predicates, text

TABLES = ("Orders", "Lines", "airports")
CLEAN = {"Orders": ["Price", "Größe", "Score"], "Lines": ["UnitPrice", "Weight"], "airports": ["Latitude", "Longitude"]}
WHOLE = {"Orders": ["Qty", "Cents", "Count", "Code"], "Lines": ["Pieces", "Amount"], "airports": ["Elevation", "Passengers"]}
GROUPS = {
    "Orders": ["PartitionKey", "City", "Airport", "Paid", "Qty", "Score", "Ratio + 1e0", "Count % 7", "extract(year FROM Created)", "date_trunc('month', Created)"],
    "Lines": ["PartitionKey", "Product", "Returned", "Customer", "Pieces", "Weight", "Amount % 5", "date_trunc('year', Shipped)"],
    "airports": ["PartitionKey", "Hub", "Operator", "Elevation % 3", "extract(month FROM Opened)"],
}
# What must occur at least ten times among 200 queries, beside the kinds.
FEATURES = {
    "ORDER BY": r"ORDER BY", "LIMIT": r"LIMIT", "UNION ALL": r"UNION ALL", "WITH": r"^WITH", "GROUP BY": r"GROUP BY", "HAVING": r"HAVING",
    "DISTINCT": r"DISTINCT", "inner join": r"(?<!LEFT) JOIN", "left join": r"LEFT JOIN", "subquery": r"(EXISTS|IN) \(SELECT", "NULL logic": r"IS (NOT )?NULL",
    "TIMESTAMP": r"TIMESTAMP '", "binary": r"X'", "LIKE": r"LIKE", "BETWEEN": r"BETWEEN",
}


@dataclasses.dataclass
class Query:
    kind: str
    sql: str
    # Whether the order of the rows is determined by the query.
    is_ordered: bool = False

    def features(self):
        return [name for name, pattern in FEATURES.items() if re.search(pattern, self.sql)]


class Generator:
    """Makes queries over the tables of `data.tables`."""

    def __init__(self, seed, tables):
        self.random = random.Random(seed)
        self.tables = tables
        self.make = Predicates(self.random, tables)
        self.kinds = [name.removeprefix("query_") for name in dir(self) if name.startswith("query_")]

    def queries(self, count):
        """The queries, of each kind as many as of the others."""
        for number in range(count):
            kind = self.kinds[number % len(self.kinds)]
            made = getattr(self, f"query_{kind}")()
            sql, is_ordered = made if isinstance(made, tuple) else (made, False)
            yield Query(kind.replace("_", " "), sql, is_ordered)

    def table(self):
        return self.random.choice(TABLES)

    def columns(self, table, count=4):
        """Keys and some other columns, in any order."""
        chosen = self.random.sample(list(self.tables[table].columns), self.random.randint(1, count))
        chosen = ["PartitionKey", "RowKey", *chosen]
        self.random.shuffle(chosen)
        return ", ".join(self.make.written(column) for column in chosen)

    def select(self, table, condition):
        return f"SELECT {self.columns(table)} FROM {table} WHERE {condition}"

    def order(self, column):
        return f"{column} {self.random.choice(['ASC', 'DESC'])} NULLS {self.random.choice(['FIRST', 'LAST'])}"

    def aggregates(self, table, alias=""):
        """Two to four aggregates with names."""
        prefix = f"{alias}." if alias else ""
        texts = ["RowKey", self.make.column(table, "String"), self.make.column(table, "DateTime"), self.make.column(table, "Guid")]
        whole, clean = self.random.choice(WHOLE[table]), self.random.choice(CLEAN[table])
        any_column = self.make.written(self.random.choice(list(self.tables[table].columns)))
        choices = [
            f"sum({prefix}{whole}) AS total",
            f"sum({prefix}{clean}) AS sum_double",
            f"avg({prefix}{self.random.choice(WHOLE[table])}) AS mean",
            f"avg({prefix}{clean}) AS mean_double",
            f"min({prefix}{self.random.choice(texts)}) AS least",
            f"max({prefix}{self.random.choice(texts)}) AS greatest",
            f"max({prefix}{self.random.choice(WHOLE[table])}) AS most",
            f"min({prefix}{clean}) AS least_double",
            f"count({prefix}{any_column}) AS present",
            f"count(DISTINCT {prefix}{any_column}) AS different",
            f"COUNT({prefix}{any_column}) AS also_present",
        ]
        return ", ".join(["count(*) AS n", *self.random.sample(choices, self.random.randint(1, 3))])

    # Each method `query_…` makes one query of its kind.

    def query_projection(self):
        table = self.table()
        form = self.random.randrange(5)
        if form == 4:
            # A scan without columns.
            return f"SELECT count(*) AS n FROM {table}"
        if form == 0:
            # Not `*`: a table of the service has a Timestamp, too.
            return f"SELECT PartitionKey, RowKey, {', '.join(map(self.make.written, self.tables[table].columns))} FROM {table}"
        if form == 1:
            column = self.make.column(table, "String")
            return f"SELECT RowKey AS k, length({column}) AS letters, {column} || '!' AS loud, {self.random.choice(WHOLE[table][:2])} + 1 AS next FROM {table}"
        if form == 2:
            column = self.random.choice(CLEAN[table])
            return f"SELECT PartitionKey, CASE WHEN {self.make.any(table)} THEN 'yes' ELSE 'no' END AS answer, coalesce({column}, -1e0) * 2 AS twice FROM {table}"
        return f"SELECT {self.columns(table, 8)} FROM {table}"

    def query_keys_equal(self):
        table = self.table()
        pair = self.random.choice(self.tables[table].rows)
        partition, row = text(pair["PartitionKey"]), text(pair["RowKey"])
        other = text(self.random.choice([*self.tables[table].values("PartitionKey"), "nothing"]))
        rows = [text(one["RowKey"]) for one in self.tables[table].rows if one["PartitionKey"] == pair["PartitionKey"]]
        listed = ", ".join(self.random.sample(rows, min(len(rows), self.random.randint(1, 30))))
        condition = self.random.choice([
            f"PartitionKey = {partition}",
            f"PartitionKey = {partition} AND RowKey = {row}",
            f"PartitionKey = {partition} AND RowKey = {row}",
            f"PartitionKey = {partition} AND {self.make.any(table)}",
            f"PartitionKey IN ({partition}, {other}, 'nothing')",
            f"PartitionKey = {partition} AND RowKey IN ({listed}, 'nothing')",
            f"RowKey = {row}",
            f"RowKey IN ({listed})",
            f"PartitionKey = {partition} AND PartitionKey = {other}",
            f"PartitionKey <> {partition} AND RowKey <> {row}",
            f"PartitionKey = {partition} OR RowKey = {row}",
            f"NOT (PartitionKey = {partition})",
            f"PartitionKey NOT IN ({partition}, {other})",
        ])
        return self.select(table, condition)

    def bound(self, table, column):
        return text(self.random.choice(ODD_BOUNDS)) if self.random.random() < 0.6 else self.make.literal(table, column)

    def key_range(self, table):
        column = self.random.choice(["PartitionKey", "RowKey"])
        low, high = self.bound(table, column), self.bound(table, column)
        start = f"PartitionKey = {self.make.literal(table, 'PartitionKey')} AND "
        return self.random.choice(["", "", start]) + self.random.choice([
            f"{column} {self.random.choice(['<', '<=', '>', '>='])} {low}",
            f"{low} {self.random.choice(['<', '<='])} {column}",
            f"{column} >= {low} AND {column} < {high}",
            f"{column} BETWEEN {low} AND {high}",
            f"({column} < {low} OR {column} > {high})",
            f"{column} NOT BETWEEN {low} AND {high}",
            self.make.like(table, column, only_prefix=True),
            self.make.like(table, column, only_prefix=True),
            f"PartitionKey >= {low} AND RowKey < {self.bound(table, 'RowKey')}",
        ])

    def query_key_range(self):
        table = self.random.choice(["Orders", "Orders", "Lines"])
        if self.random.random() < 0.2:
            return f"SELECT count(*) AS n, min(RowKey) AS least, max(RowKey) AS greatest, max(PartitionKey) AS last FROM {table} WHERE {self.key_range(table)}"
        return self.select(table, self.key_range(table))

    def query_key_pairs(self):
        table = self.table()
        rows = self.random.sample(self.tables[table].rows, self.random.choice([2, 3, 8, 20]))
        pairs = [f"(PartitionKey = {text(row['PartitionKey'])} AND RowKey = {text(row['RowKey'])})" for row in rows]
        form = self.random.randrange(4)
        if form == 0:
            pairs.append(f"({self.make.any(table)} AND PartitionKey = {text(rows[0]['PartitionKey'])})")
        if form == 1:
            pairs.append(f"(PartitionKey = {text(rows[0]['PartitionKey'])} AND {self.make.like(table, 'RowKey', only_prefix=True)})")
        condition = " OR ".join(pairs)
        return self.select(table, f"({condition}) AND {self.make.any(table)}" if form == 2 else condition)

    def query_integers(self):
        table = self.table()
        condition = self.make.number(table, self.make.column(table, "Int32", "Int64"))
        if self.random.random() < 0.4:
            condition += f" {self.random.choice(['AND', 'OR'])} {self.make.number(table, self.make.column(table, 'Int32', 'Int64'))}"
        return self.select(table, condition)

    def query_doubles(self):
        column = self.random.choice(["Ratio", "Ratio", "Price", "Größe"])
        special = f"CAST('{self.random.choice(['NaN', 'NaN', 'Infinity', '-Infinity'])}' AS DOUBLE)"
        condition = self.random.choice([
            f"{column} {self.random.choice(['=', '<>', '<', '>=', '>', '<='])} {special}",
            self.make.compare("Orders", column, ["<", ">", "<=", ">=", "<>", "="]),
            f"{column} > {self.make.literal('Orders', column)} AND {column} <= {self.make.literal('Orders', column)}",
            self.make.one_of("Orders", column),
            self.make.between("Orders", column),
            f"NOT ({self.make.compare('Orders', column, ['<', '>', '='])})",
        ])
        return f"SELECT PartitionKey, RowKey, {column} FROM Orders WHERE {condition}"

    def query_texts(self):
        table = self.table()
        column = self.make.column(table, "String")
        condition = self.random.choice([
            self.make.compare(table, column, ["=", "<>", "<", ">", ">="]),
            self.make.one_of(table, column),
            self.make.between(table, column),
            self.make.like(table, column),
            self.make.like(table, column),
            f"{column} = ''",
            f"NOT ({column} = {self.make.literal(table, column)})",
        ])
        return self.select(table, condition)

    def query_booleans_and_nulls(self):
        """A Boolean beside conditions that are NULL for some rows."""
        table = self.table()
        column = self.random.choice(WHOLE[table])
        condition = self.random.choice([
            self.make.logic(table, 1), self.make.logic(table, 2), self.make.logic(table, 2), f"{column} = NULL", f"{column} IN (1, 7, NULL)",
            f"{column} NOT IN (1, NULL)", f"NOT ({column} IN (1, 7)) AND {self.make.null(table)}", f"coalesce({column}, 7) = 7",
            f"{column} IS NOT DISTINCT FROM 7", f"({column} > 5) IS NULL", self.make.null(table), self.make.null(table),
        ])
        boolean = self.make.boolean(table, self.make.column(table, "Boolean"))
        return self.select(table, f"{boolean} {self.random.choice(['AND', 'OR', 'OR NOT'])} ({condition})")

    def query_dates(self):
        table = self.table()
        column = self.make.column(table, "DateTime")
        if self.random.random() < 0.2:
            return f"SELECT RowKey, {column}, extract(year FROM {column}) AS y FROM {table} WHERE extract(month FROM {column}) = {self.random.randint(1, 12)}"
        condition = self.make.time(table, column)
        if self.random.random() < 0.3:
            condition = f"NOT ({condition}) AND {self.make.null(table)}"
        return f"SELECT PartitionKey, RowKey, {column} FROM {table} WHERE {condition}"

    def query_guids(self):
        table = self.table()
        column = self.make.column(table, "Guid")
        literal = self.make.literal(table, column)
        condition = self.random.choice([
            f"{column} = {literal}", f"{column} = {literal}", f"{column} = {literal.upper()}", f"{column} <> {literal}",
            f"{column} IN ({self.make.literals(table, column, 20)})", f"{column} NOT IN ({self.make.literals(table, column, 3)})",
            f"NOT ({column} = {literal})", f"{column} > {literal}", f"{column} LIKE {literal[:3]}%'", f"{column} IS NULL",
        ])
        return f"SELECT RowKey, {column} FROM {table} WHERE {condition}"

    def query_binaries(self):
        table = self.table()
        column = self.make.column(table, "Binary")
        literal = self.make.literal(table, column)
        condition = self.random.choice([
            f"{column} = {literal}", f"{column} = {literal}", f"{column} = X''", f"{column} <> {literal}", f"{column} < {literal}",
            f"{column} >= {literal}", f"{column} IN ({self.make.literals(table, column, 5)})", f"NOT ({column} = {literal})", f"X'00' = {column}",
        ])
        return f"SELECT PartitionKey, RowKey, {column} FROM {table} WHERE {condition} OR {column} = X'ffff'"

    def query_mixed_numbers(self):
        table = self.random.choice(["Orders", "Lines"])
        column = self.make.column(table, "Int32 or Int64", "Int32 or Double")
        number = self.random.randint(-20, 200)
        condition = self.random.choice([
            self.make.number(table, column), self.make.number(table, column), f"{column} = {number}", f"{column} = {number}.0e0", f"{column} > {number}",
            f"{column} <> {number}", f"NOT ({column} < {number})", f"{column} IN ({number}, {number + 1}, {number + 2})", f"{column} BETWEEN {number} AND 1e12",
        ])
        if self.random.random() < 0.3:
            return f"SELECT count({column}) AS n, sum({column}) AS total, avg({column}) AS mean, min({column}) AS least FROM {table} WHERE {condition}"
        return f"SELECT RowKey, {column} FROM {table} WHERE {condition}"

    def query_group(self):
        table = self.table()
        groups = self.random.sample(GROUPS[table], self.random.choice([1, 1, 2]))
        named = ", ".join(f"{group} AS g{number}" for number, group in enumerate(groups))
        condition = self.random.choice(["", "", f" WHERE {self.make.any(table)}", f" WHERE {self.make.logic(table, 1)}"])
        return f"SELECT {named}, {self.aggregates(table)} FROM {table}{condition} GROUP BY {', '.join(groups)}"

    def query_having(self):
        table = self.table()
        group = self.random.choice(GROUPS[table][:4])
        having = self.random.choice([
            f"count(*) > {self.random.choice([1, 5, 50])}", f"sum({self.random.choice(WHOLE[table])}) > 500", f"max({self.random.choice(CLEAN[table])}) < 900e0",
            f"count(DISTINCT {self.make.column(table, 'String')}) >= 3", f"min(RowKey) < {text(self.random.choice(ODD_BOUNDS))}",
        ])
        sql = f"SELECT {group} AS g, {self.aggregates(table)} FROM {table} GROUP BY {group} HAVING {having}"
        return (f"{sql} ORDER BY {self.order('g')}", True) if self.random.random() < 0.5 else sql

    def query_distinct(self):
        table = self.table()
        columns = self.random.sample([column for column in GROUPS[table] if column.isalpha()], 2)
        condition = self.random.choice(["", f" WHERE {self.make.any(table)}", f" WHERE {self.key_range(table)}"])
        return f"SELECT DISTINCT {', '.join(columns)} FROM {table}{condition}"

    def query_left_join(self):
        form = self.random.random()
        if form < 0.25:
            # Numbers of two types, and a few partitions of the table that is joined.
            one, other = self.random.choice([("o.Qty", "l.Amount"), ("o.Count", "l.Pieces"), ("o.Count", "l.Amount"), ("o.Qty", "l.Pieces")])
            return (
                "SELECT l.PartitionKey AS code, l.RowKey AS k, o.RowKey AS rk, o.Count AS count "
                f"FROM Lines l LEFT JOIN Orders o ON {one} = {other} AND o.PartitionKey = l.Customer WHERE l.PartitionKey IN ({self.make.literals('Lines', 'PartitionKey', 3)})"
            )
        if form < 0.6:
            on = self.random.choice(["", " AND a.Hub", f" AND {self.make.any('airports', 'a')}"])
            where = self.random.choice(["a.RowKey IS NULL", self.make.any("Orders", "o"), "a.PartitionKey = 'CA'", "a.Elevation > 1000 OR a.Hub IS NULL"])
            return (
                "SELECT o.PartitionKey AS customer, o.RowKey AS k, a.RowKey AS code, a.Name AS name "
                f"FROM Orders o LEFT JOIN airports a ON o.Airport = a.RowKey{on} WHERE {where}"
            )
        return (
            "SELECT l.PartitionKey AS code, l.RowKey AS k, o.City AS city, a.Operator AS operator, l.Pieces * o.Qty AS product "
            "FROM Lines l JOIN Orders o ON l.Customer = o.PartitionKey AND l.OrderKey = o.RowKey "
            f"LEFT JOIN airports a ON o.Airport = a.RowKey WHERE {self.make.any('Lines', 'l')}"
        )

    def query_semi_join(self):
        inner, outer = self.make.any("airports"), self.make.any("Orders", "o")
        negation = self.random.choice(["", "", "NOT "])
        return self.random.choice([
            f"SELECT PartitionKey, RowKey, Qty FROM Orders WHERE Qty > (SELECT avg(Pieces) FROM Lines WHERE {self.make.any('Lines')}) AND Airport IN (SELECT RowKey FROM airports)",
            f"SELECT RowKey, Operator FROM airports WHERE RowKey {negation}IN (SELECT PartitionKey FROM Lines WHERE {self.make.any('Lines')})",
            f"SELECT PartitionKey, RowKey, City FROM Orders WHERE PartitionKey IN (SELECT Operator FROM airports WHERE {inner})",
            f"SELECT PartitionKey, RowKey, Airport FROM Orders WHERE Airport IN (SELECT RowKey FROM airports WHERE PartitionKey = {text(self.make.value('airports', 'PartitionKey'))})",
            "SELECT o.PartitionKey AS pk, o.RowKey AS rk FROM Orders o "
            f"WHERE {negation}EXISTS (SELECT 1 FROM Lines l WHERE l.Customer = o.PartitionKey AND l.OrderKey = o.RowKey AND l.Pieces > 25) AND {outer}",
            f"SELECT l.RowKey AS rk FROM Lines l WHERE {negation}EXISTS (SELECT 1 FROM airports a WHERE a.RowKey = l.PartitionKey AND {self.make.any('airports', 'a')})",
        ])

    def query_partition_join(self):
        """Few rows of a small table choose the partitions of a large one."""
        state = text(self.make.value("airports", "PartitionKey"))
        where = self.random.choice([f"a.PartitionKey = {state}", f"a.Elevation < {self.random.choice([100, 300, 2_000])}", self.make.any("airports", "a")])
        if self.random.random() < 0.5:
            joined, columns, alias, table = "Lines l JOIN airports a ON l.PartitionKey = a.RowKey", "l.PartitionKey", "l", "Lines"
        else:
            joined, columns, alias, table = "airports a JOIN Orders o ON o.PartitionKey = a.Operator", "o.PartitionKey", "o", "Orders"
        if self.random.random() < 0.4:
            return f"SELECT {columns} AS pk, a.Name AS name, {self.aggregates(table, alias)} FROM {joined} WHERE {where} GROUP BY {columns}, a.Name"
        return f"SELECT {columns} AS pk, {alias}.RowKey AS rk, a.RowKey AS code, a.PartitionKey AS state FROM {joined} WHERE {where}"

    def query_order_and_limit(self):
        table = self.table()
        columns = self.random.sample(list(self.tables[table].columns), 2)
        chosen = self.random.choice([[], columns[:1], columns])
        # The keys make the order total.
        keys = ["PartitionKey", "RowKey"] if self.random.random() < 0.7 else ["RowKey", "PartitionKey"]
        order = ", ".join(self.order(self.make.written(column)) for column in [*chosen, *keys])
        condition = self.random.choice(["", f" WHERE {self.make.any(table)}", f" WHERE {self.key_range(table)}"])
        if self.random.random() < 0.3:
            # Which rows is open, how many is not: a limit is not applied before what is filtered here.
            limit = self.random.choice([1, 5, 700])
            condition = self.random.choice([condition, f" WHERE {self.make.logic(table, 1)}"])
            return f"SELECT count(*) AS n, count(k) AS keys FROM (SELECT RowKey AS k FROM {table}{condition} LIMIT {limit}) AS few", True
        offset = self.random.choice(["", f" OFFSET {self.random.choice([1, 10, 100, 3_390])}"])
        selected = ", ".join(["PartitionKey", "RowKey", *map(self.make.written, columns)])
        limit = self.random.choice([1, 5, 50, 1_000, 10_000])
        return f"SELECT {selected} FROM {table}{condition} ORDER BY {order} LIMIT {limit}{offset}", True

    def query_cte_and_union(self):
        first, second = self.make.any("Orders"), self.make.logic("Lines", 1)
        form = self.random.randrange(3)
        if form == 0:
            return (
                f"WITH cheap AS (SELECT PartitionKey AS pk, RowKey AS rk, Price AS price FROM Orders WHERE {first}), "
                f"sent AS (SELECT Customer AS pk, OrderKey AS rk, UnitPrice AS price FROM Lines WHERE {second}) "
                "SELECT pk, rk, price FROM cheap UNION ALL SELECT pk, rk, price FROM sent"
            )
        if form == 1:
            return (
                f"WITH moved AS (SELECT PartitionKey AS pk, Qty AS n FROM Orders WHERE {first} UNION ALL SELECT Customer, Pieces FROM Lines WHERE {second}) "
                f"SELECT pk, count(*) AS n, sum(n) AS total FROM moved GROUP BY pk ORDER BY {self.order('pk')}"
            ), True
        return (
            "WITH l AS (SELECT Customer, OrderKey, sum(Pieces) AS pieces FROM Lines GROUP BY Customer, OrderKey) "
            f"SELECT o.PartitionKey AS pk, o.RowKey AS rk, l.pieces AS pieces FROM Orders o JOIN l ON l.Customer = o.PartitionKey AND l.OrderKey = o.RowKey "
            f"WHERE {self.make.any('Orders', 'o')} UNION ALL SELECT PartitionKey, RowKey, Elevation FROM airports WHERE {self.make.any('airports')}"
        )
