"""Literals and conditions in SQL that DuckDB and DataFusion read alike."""

import math

from data import instant

# Where the order of the service, by UTF-16 units, and that of SQL, by code points, part.
ODD_BOUNDS = ["\ue000", "\uf8ff", "\ufffd", "😀", "𐀀", "z", "é", "Ä", " ", "'", "", "~", "order_000500", "Order_000", "ord", "contoso", "A_1"]


def text(value):
    return "'" + value.replace("'", "''") + "'"


def double(value):
    if math.isnan(value) or math.isinf(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{name}' AS DOUBLE)"
    written = repr(float(value))
    # Without an exponent DuckDB reads a decimal.
    return written if "e" in written else written + "e0"


def binary(value):
    return f"X'{value.hex()}'"


def timestamp(ticks):
    """A literal with microseconds, the most that DuckDB's TIMESTAMP has."""
    return f"TIMESTAMP '{instant(ticks - ticks % 10)}'"


class Predicates:
    """Random conditions on a table's columns, with values that occur in it."""

    def __init__(self, random, tables):
        self.random = random
        self.tables = tables

    def value(self, table, column):
        return self.random.choice(self.tables[table].values(column))

    def column(self, table, *types):
        """A column of one of these types."""
        return self.random.choice([name for name, edm in self.tables[table].columns.items() if edm in types])

    def literal(self, table, column):
        """A value of the column, as a literal."""
        value, edm = self.value(table, column), self.tables[table].columns.get(column, "String")
        if edm in ("String", "Guid"):
            return text(value)
        if edm == "Binary":
            return binary(value)
        if edm == "Boolean":
            return self.random.choice(["TRUE", "FALSE"])
        if edm == "DateTime":
            return timestamp(value)
        if edm == "Double" and value == 0:
            return double(1.5)  # whether -0.0 is 0.0 depends on the engine
        # The least integer cannot be written: the sign is no part of a number.
        return double(value) if isinstance(value, float) else str(max(value, -(2**63) + 1))

    def literals(self, table, column, count):
        return ", ".join(dict.fromkeys(self.literal(table, column) for _ in range(count)))

    def written(self, column, alias=""):
        prefix = f"{alias}." if alias else ""
        return prefix + ('"Order"' if column == "Order" else column)

    def compare(self, table, column, operators, alias=""):
        """A comparison of a column with a literal, or now and then of a literal with a column."""
        name, literal, operator = self.written(column, alias), self.literal(table, column), self.random.choice(operators)
        if self.random.random() < 0.15:
            turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
            return f"{literal} {turned} {name}"
        return f"{name} {operator} {literal}"

    def between(self, table, column, alias=""):
        low, high = self.literal(table, column), self.literal(table, column)
        negation = self.random.choice(["", "", "", "NOT "])
        return f"{self.written(column, alias)} {negation}BETWEEN {low} AND {high}"

    def one_of(self, table, column, alias="", count=6):
        negation = self.random.choice(["", "", "NOT "])
        listed = self.literals(table, column, self.random.randint(1, count))
        return f"{self.written(column, alias)} {negation}IN ({listed})"

    def like(self, table, column, alias="", only_prefix=False):
        value = self.value(table, column)
        start = value[: self.random.randint(0, 6)]
        patterns = [start + "%", start + "%", start[:-1] + "_%"]
        if not only_prefix:
            patterns += ["%" + value[-3:], "%" + value[1:3] + "%", value, "_" + value[1:]]
        negation = self.random.choice(["", "", "", "NOT "])
        return f"{self.written(column, alias)} {negation}LIKE {text(self.random.choice(patterns)[:40])}"

    def null(self, table, alias=""):
        column = self.random.choice(list(self.tables[table].columns))
        return f"{self.written(column, alias)} IS {self.random.choice(['', 'NOT '])}NULL"

    def number(self, table, column, alias=""):
        """A condition on a column of numbers, now and then with a number that its type does not have."""
        name = self.written(column, alias)
        kind = self.random.randrange(6)
        if kind == 0:
            return self.between(table, column, alias)
        if kind == 1:
            return self.one_of(table, column, alias)
        if kind == 2:
            others = ["2.5e0", "3000000000", "-3000000000", "9007199254740993", "7.0e0", "1e3"]
            return f"{name} {self.random.choice(['<', '>', '<=', '>=', '<>', '='])} {self.random.choice(others)}"
        return self.compare(table, column, ["=", "<>", "<", ">", "<=", ">="], alias)

    def boolean(self, table, column, alias=""):
        name = self.written(column, alias)
        forms = ["{}", "NOT {}", "{} = TRUE", "{} <> TRUE", "{} = FALSE", "{} IS TRUE", "{} IS NOT TRUE", "{} IS FALSE", "{} IS NOT FALSE"]
        return self.random.choice(forms).format(name)

    def time(self, table, column, alias=""):
        name, kind = self.written(column, alias), self.random.randrange(6)
        if kind == 0:
            return self.between(table, column, alias)
        if kind == 1:
            # All digits, as text: a literal TIMESTAMP of DuckDB has six.
            return f"{name} {self.random.choice(['=', '>=', '<', '<>'])} '{instant(self.value(table, column))}'"
        if kind == 2:
            ticks = self.value(table, column)
            days = self.random.choice([1, 30, 3_000]) * 86_400 * 10_000_000
            return f"{name} >= {timestamp(ticks - days)} AND {name} < {timestamp(ticks + days)}"
        if kind == 3:
            return self.one_of(table, column, alias)
        return self.compare(table, column, ["=", "<>", "<", ">", "<=", ">="], alias)

    def any(self, table, alias=""):
        """A condition on a column of any type."""
        column = self.random.choice(list(self.tables[table].columns))
        edm = self.tables[table].columns[column]
        if edm == "Boolean":
            return self.boolean(table, column, alias)
        if edm == "DateTime":
            return f"({self.time(table, column, alias)})"
        if edm in ("Guid", "Binary"):
            return self.compare(table, column, ["=", "<>"], alias)
        if edm == "String":
            return self.random.choice([self.like, self.one_of])(table, column, alias)
        return self.number(table, column, alias)

    def logic(self, table, depth, alias=""):
        """Conditions that are joined by AND, OR and NOT, most of them NULL for some rows."""
        if depth == 0:
            if self.random.random() < 0.25:
                return self.null(table, alias)
            return self.any(table, alias)
        left, right = self.logic(table, depth - 1, alias), self.logic(table, depth - 1, alias)
        form = self.random.choice(["({} AND {})", "({} OR {})", "NOT ({} AND {})", "NOT ({} OR {})", "({} AND NOT ({}))", "({} OR NOT ({}))"])
        return form.format(left, right)
