"""Three tables with rows of every type, for `rowkey import` and for DuckDB.

The same seed gives the same rows. A property that a row does not have is NULL in DuckDB.
"""

import base64
import json
import math
import random
import uuid

import pyarrow

EPOCH_TICKS_A_SECOND = 10_000_000
# Seconds from 1970 to the years that DateTime values are in: nanoseconds in 64 bits reach from 1677 to 2262.
YEAR_1700, YEAR_2019, YEAR_2026, YEAR_2200 = -8_520_336_000, 1_546_300_800, 1_767_225_600, 7_258_118_400

# The type of each column in DuckDB, as Arrow writes it. A number that is stored as two types is widened.
ARROW = {
    "String": pyarrow.string(),
    "Int32": pyarrow.int32(),
    "Int64": pyarrow.int64(),
    "Double": pyarrow.float64(),
    "Boolean": pyarrow.bool_(),
    "DateTime": pyarrow.timestamp("ns"),
    "Guid": pyarrow.string(),
    "Binary": pyarrow.binary(),
    "Int32 or Int64": pyarrow.int64(),
    "Int32 or Double": pyarrow.float64(),
}
COLUMNS = {
    "Orders": {
        "City": "String",
        "Note": "String",
        "Airport": "String",
        "Qty": "Int32",
        "Code": "Int32",
        "Order": "Int32",
        "Cents": "Int64",
        "Big": "Int64",
        "Price": "Double",
        "Ratio": "Double",
        "Größe": "Double",
        "Paid": "Boolean",
        "Created": "DateTime",
        "Until": "DateTime",
        "Id": "Guid",
        "Data": "Binary",
        "Count": "Int32 or Int64",
        "Score": "Int32 or Double",
    },
    "Lines": {
        "Customer": "String",
        "OrderKey": "String",
        "Product": "String",
        "Pieces": "Int32",
        "Weight": "Int32 or Double",
        "Amount": "Int32 or Int64",
        "UnitPrice": "Double",
        "Returned": "Boolean",
        "Shipped": "DateTime",
        "Serial": "Guid",
        "Label": "Binary",
    },
    "airports": {
        "Name": "String",
        "Operator": "String",
        "Latitude": "Double",
        "Longitude": "Double",
        "Elevation": "Int32",
        "Passengers": "Int64",
        "Hub": "Boolean",
        "Opened": "DateTime",
        "Id": "Guid",
        "Chart": "Binary",
    },
}

# PartitionKeys of Orders. The service orders keys by UTF-16 units, SQL by code points: `😀` and `𐀀` are after U+E000 here, and before it there.
CUSTOMERS = [
    "contoso", "fabrikam", "Contoso", "O'Brien & Söhne", "Ärger GmbH", "😀 shop", "\ue000private", "𐀀 linear", "\ufffd", "", " lead",
    "a b  c", "A_1", "AX1", "A%1", 'said "hi"', "''", "zoë", "zoe\u0308", "Ω", "日本", "~", "0", "00", "1", "10", "2", "contosO", "contoso ",
    "contoso-eu", "contoso-us", "contoso_eu", "northwind", "tailspin", "wingtip",
]
CITIES = ["York", "Köln", "São Paulo", "Zürich", "Oslo", "O'Fallon", "New York", "東京", "😀ville", "", "york", "Łódź"]
PRODUCTS = ["bolt", "nut", "washer", "Bolt", "nut M4", "nut M5", "nut_M5", "50% off", "schräg", "", "gear"]
STATES = ["AK", "AL", "CA", "FL", "NY", "TX", "WA", "Öst", "pr"]
# Characters of odd keys.
ALPHABET = ["a", "b", "Z", "_", "'", " ", "ä", "0", "9", "~", "%", "é", "e\u0301", "\ue000", "\uf8ff", "\ufffd", "😀", "𐀀", "漢", "=", "(", "|"]


class Table:
    """A table: its rows are dicts of `(EDM type, value)`; keys are text, a DateTime is its number of ticks since 1970."""

    def __init__(self, name):
        self.name = name
        self.columns = COLUMNS[name]
        self.rows = []
        self.keys = set()

    def add(self, partition_key, row_key, properties):
        if (partition_key, row_key) in self.keys:
            return False
        self.keys.add((partition_key, row_key))
        self.rows.append({"PartitionKey": partition_key, "RowKey": row_key} | properties)
        return True

    def values(self, column):
        """What the rows have in a column, without the rows that lack it."""
        return [row[column] if column in ("PartitionKey", "RowKey") else row[column][1] for row in self.rows if column in row]

    def json_lines(self):
        """The rows as `rowkey import` reads them."""
        for row in self.rows:
            yield json.dumps({name: value if isinstance(value, str) else typed(*value) for name, value in row.items()}) + "\n"

    def arrow(self):
        """The rows as DuckDB reads them."""
        arrays, names = [], []
        for name in ("PartitionKey", "RowKey"):
            arrays.append(pyarrow.array([row[name] for row in self.rows], pyarrow.string()))
            names.append(name)
        for name, edm in self.columns.items():
            values = [plain(edm, *row[name]) if name in row else None for row in self.rows]
            # Through an integer: an instant of Python has microseconds.
            is_time = pyarrow.types.is_timestamp(ARROW[edm])
            array = pyarrow.array(values, pyarrow.int64()).cast(ARROW[edm]) if is_time else pyarrow.array(values, ARROW[edm])
            arrays.append(array)
            names.append(name)
        return pyarrow.table(arrays, names)


def plain(column, edm, value):
    """A value as that of an Arrow column."""
    if edm == "DateTime":
        return value * 100
    return float(value) if column in ("Double", "Int32 or Double") else value


def typed(edm, value):
    """A value in the form of rowkey's JSON lines."""
    if edm in ("String", "Boolean", "Int32"):
        return value
    if edm == "Double":
        special = {math.inf: "Infinity", -math.inf: "-Infinity"}
        text = "NaN" if math.isnan(value) else special.get(value, repr(value))
    elif edm == "DateTime":
        text = instant(value).replace(" ", "T") + "Z"
    elif edm == "Binary":
        text = base64.b64encode(value).decode()
    else:
        text = str(value)
    return {f"Edm.{edm}": text}


def instant(ticks):
    """An instant as SQL writes it, in UTC, without zeros at the end of the fraction."""
    days, rest = divmod(ticks, 86_400 * EPOCH_TICKS_A_SECOND)
    seconds, fraction = divmod(rest, EPOCH_TICKS_A_SECOND)
    # The civil date of a day: days from 0000-03-01, in eras of 400 years.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day_of_year = day - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    text = f"{year + era * 400 + (month <= 2):04}-{month:02}-{day_of_year - (153 * shifted + 2) // 5 + 1:02}"
    text += f" {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + f".{fraction:07}".rstrip("0") if fraction else text


class Maker:
    """Random values of each type."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, probability):
        return self.random.random() < probability

    def key(self):
        return "".join(self.random.choice(ALPHABET) for _ in range(self.random.randint(1, 5)))

    def note(self):
        kind = self.random.randrange(8)
        if kind == 0:
            return ""
        if kind == 1:
            return "it's \"quoted\" " + self.key()
        if kind == 2:
            return "long " * 400 + str(self.random.randrange(100))
        if kind == 3:
            return f"a\nb\t{self.random.randrange(10)}"
        return f"note {self.random.randrange(300)}"

    def int32(self):
        edges = [-(2**31), 2**31 - 1, 0, -1, 1]
        return self.random.choice(edges) if self.chance(0.2) else self.random.randint(-(2**31), 2**31 - 1)

    def int64(self):
        edges = [2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, -(2**63), 0, 2**31, -(2**31) - 1]
        return self.random.choice(edges) if self.chance(0.3) else self.random.randint(-(2**62), 2**62)

    def ratio(self):
        # No 0.0: an engine that tells -0.0 from it is not wrong.
        edges = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e16, -2.5]
        return self.random.choice(edges) if self.chance(0.5) else self.random.randint(-4_000, 4_001) / 8 + 0.0625

    def price(self):
        return self.random.randint(1, 100_000) / 100

    def time(self, start, end):
        ticks = self.random.randrange(start * EPOCH_TICKS_A_SECOND, end * EPOCH_TICKS_A_SECOND)
        # Whole days, seconds and microseconds occur too, so that literals of less precision find rows.
        return ticks - ticks % self.random.choice([1, 1, 10, EPOCH_TICKS_A_SECOND, 86_400 * EPOCH_TICKS_A_SECOND])

    def guid(self):
        return str(uuid.UUID(int=self.random.getrandbits(128)))

    def binary(self):
        size = self.random.choice([0, 1, 1, 2, 16, 40])
        return bytes(self.random.choice([0, 1, 0x27, 0x7F, 0x80, 0xFF]) for _ in range(size))

    def number(self, wide):
        """A number as one of two types; the same number occurs as both."""
        value = self.random.randint(-20, 200)
        if self.chance(0.5):
            return "Int32", value
        if wide == "Int64":
            return wide, self.random.choice([value, value + 2**40, -value - 2**33])
        return wide, self.random.choice([float(value), value + 0.5, value / 7])

    def some(self, properties, missing=0.15):
        """The properties, of which each is missing with this probability."""
        return {name: value for name, value in properties.items() if not self.chance(missing)}


def airports(make):
    table = Table("airports")
    while len(table.rows) < 60:
        code = "".join(make.random.choice("ABCDEFGHKLMNOPQRSTUVWXYZ") for _ in range(3))
        if any(row["RowKey"] == code for row in table.rows):
            continue
        number = len(table.rows)
        properties = {
            "Name": ("String", f"{make.random.choice(CITIES) or 'Nowhere'} {make.random.choice(['Intl', 'Field', 'Municipal'])}"),
            "Operator": ("String", make.random.choice(CUSTOMERS)),
            "Latitude": ("Double", make.random.randint(-900_000, 900_000) / 10_000),
            "Longitude": ("Double", make.random.randint(-1_800_000, 1_800_000) / 10_000),
            "Elevation": ("Int32", make.random.randint(-10, 3_000)),
            "Passengers": ("Int64", make.random.randint(0, 9_000_000_000)),
            "Hub": ("Boolean", make.chance(0.4)),
            "Opened": ("DateTime", make.time(YEAR_1700, YEAR_2026)),
            "Id": ("Guid", make.guid()),
            "Chart": ("Binary", make.binary()),
        }
        state = STATES[number % len(STATES)] if number < 20 else make.random.choice(STATES)
        table.add(state, code, make.some(properties))
    return table


def orders(make, codes):
    table = Table("Orders")
    # Partitions of uneven size: 850 rows, then fewer and fewer, the last with one.
    sizes = [max(1, int(850 * 0.75**number)) for number in range(len(CUSTOMERS))]
    places = [customer for customer, size in zip(CUSTOMERS, sizes) for _ in range(size)]
    for number, customer in enumerate(places):
        odd = customer in ("😀 shop", "\ue000private", "") or make.chance(0.05)
        row_key = make.key() if odd else f"{make.random.choice(['order', 'Order', 'ord_er'])}_{number:06}"
        properties = {
            "City": ("String", make.random.choice(CITIES)),
            "Note": ("String", make.note()),
            "Airport": ("String", make.random.choice([*codes, "???"])),
            "Qty": ("Int32", make.random.randint(-5, 100)),
            "Code": ("Int32", make.int32()),
            "Order": ("Int32", number % 97),
            "Cents": ("Int64", make.random.randint(-10_000, 90_000_000_000)),
            "Big": ("Int64", make.int64()),
            "Price": ("Double", make.price()),
            "Ratio": ("Double", make.ratio()),
            "Größe": ("Double", make.random.randint(10, 2_000) / 10),
            "Paid": ("Boolean", make.chance(0.6)),
            "Created": ("DateTime", make.time(YEAR_2019, YEAR_2026)),
            "Until": ("DateTime", make.time(YEAR_1700, YEAR_2200)),
            "Id": ("Guid", make.guid()),
            "Data": ("Binary", make.binary()),
            "Count": make.number("Int64"),
            "Score": make.number("Double"),
        }
        properties = make.some(properties)
        while not table.add(customer, row_key, properties):
            row_key = make.key() + make.key()
    # The empty RowKey, and one row without a property.
    for customer in ("contoso", "", "😀 shop"):
        table.add(customer, "", {"City": ("String", "York"), "Qty": ("Int32", 7)})
    table.add("fabrikam", "", {})
    make.random.shuffle(table.rows)
    return table


def lines(make, codes, of):
    table = Table("Lines")
    while len(table.rows) < 2_000:
        # The square makes the first airports' partitions large.
        code = codes[int(len(codes) * make.random.random() ** 2)] if make.chance(0.97) else "no airport 😀"
        order = make.random.choice(of.rows)
        properties = {
            "Customer": ("String", order["PartitionKey"]),
            "OrderKey": ("String", order["RowKey"]),
            "Product": ("String", make.random.choice(PRODUCTS)),
            "Pieces": ("Int32", make.random.randint(1, 50)),
            "Weight": make.number("Double"),
            "Amount": make.number("Int64"),
            "UnitPrice": ("Double", make.price()),
            "Returned": ("Boolean", make.chance(0.2)),
            "Shipped": ("DateTime", make.time(YEAR_2019, YEAR_2026)),
            "Serial": ("Guid", make.guid()),
            "Label": ("Binary", make.binary()),
        }
        row_key = make.key() if make.chance(0.1) else f"{order['RowKey']}-{make.random.randrange(5)}"
        table.add(code, row_key, make.some(properties, 0.1))
    return table


def tables(seed):
    """The three tables, by name."""
    make = Maker(seed)
    places = airports(make)
    codes = places.values("RowKey")
    of = orders(make, codes)
    return {table.name: table for table in (of, lines(make, codes, of), places)}


def load(connection, of):
    """Creates the tables in DuckDB."""
    for table in of.values():
        connection.register("source", table.arrow())
        connection.execute(f'CREATE TABLE "{table.name}" AS SELECT * FROM source')
        connection.unregister("source")
