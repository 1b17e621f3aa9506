"""Compares two results: rows in a typed normal form, as a list or as a multiset."""

import collections
import decimal
import math
import uuid

import pyarrow

# Sums of doubles depend on the order of the rows.
TOLERANCE = 1e-9


def kind(of):
    """What a type holds, without its width."""
    types = pyarrow.types
    if isinstance(of, pyarrow.BaseExtensionType):
        return "text" if of.extension_name == "arrow.uuid" else kind(of.storage_type)
    if types.is_dictionary(of):
        return kind(of.value_type)
    for name, checks in {
        "integer": [types.is_integer],
        "double": [types.is_floating],
        "text": [types.is_string, types.is_large_string, types.is_string_view],
        "boolean": [types.is_boolean],
        "time": [types.is_timestamp],
        "binary": [types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary],
        "nothing": [types.is_null],
    }.items():
        if any(check(of) for check in checks):
            return name
    # The sum of integers in DuckDB.
    return "integer" if types.is_decimal(of) and of.scale == 0 else str(of)


def cells(column):
    """The values of a column: numbers, text, booleans, nanoseconds since 1970, hex of bytes, None."""
    of = column.type
    if pyarrow.types.is_timestamp(of):
        scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[of.unit]
        return [None if value is None else value * scale for value in column.cast(pyarrow.int64()).to_pylist()]
    return [plain(value) for value in column.to_pylist()]


def plain(value):
    if isinstance(value, decimal.Decimal):
        return int(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def normal(table):
    """Names, kinds and rows of an Arrow table."""
    columns = [cells(column) for column in table.columns]
    rows = list(zip(*columns, strict=True)) if columns else []
    return list(table.column_names), [kind(field.type) for field in table.schema], rows


def is_close(one, other):
    """Whether two doubles are the same but for rounding. NaN is NaN, and -0.0 is not 0.0."""
    if math.isnan(one) or math.isnan(other) or math.isinf(one) or math.isinf(other):
        return one == other or (math.isnan(one) and math.isnan(other))
    if one == other == 0:
        return math.copysign(1, one) == math.copysign(1, other)
    return abs(one - other) <= TOLERANCE * max(1.0, abs(one), abs(other))


def is_same(one, other):
    return all(is_close(a, b) if isinstance(a, float) and isinstance(b, float) else a == b and type(a) is type(b) for a, b in zip(one, other, strict=True))


def exact(row):
    """A row without its doubles, for which rows with rounded doubles are looked up."""
    return tuple((type(value).__name__, None if isinstance(value, float) else value) for value in row)


def order(row):
    return [(math.isnan(value), 0.0 if math.isnan(value) else value) for value in row if isinstance(value, float)]


def multiset(expected, found):
    """The rows that are only in the first and only in the second, each counted."""
    groups = collections.defaultdict(lambda: ([], []))
    for side, rows in enumerate((expected, found)):
        for row in rows:
            groups[exact(row)][side].append(row)
    missing, extra = [], []
    for ours, theirs in groups.values():
        ours.sort(key=order)
        theirs.sort(key=order)
        if len(ours) == len(theirs) and all(is_same(a, b) for a, b in zip(ours, theirs)):
            continue
        # Rows whose doubles differ by rounding may be sorted otherwise: each takes one that is the same.
        for row in ours:
            match = next((number for number, other in enumerate(theirs) if is_same(row, other)), None)
            if match is None:
                missing.append(row)
            else:
                theirs.pop(match)
        extra += theirs
    return missing, extra


def difference(expected, found, is_ordered):
    """What differs, as lines to print; none if the results are the same."""
    (names, kinds, rows), (other_names, other_kinds, other_rows) = normal(expected), normal(found)
    if names != other_names:
        return [f"columns {names} here, {other_names} there"]
    # A column without a value may have no type.
    pairs = zip(names, kinds, other_kinds)
    wrong = [f"column {name}: {one} here, {other} there" for name, one, other in pairs if one != other and "nothing" not in (one, other)]
    if wrong:
        return wrong
    missing, extra = multiset(rows, other_rows)
    if missing or extra:
        counts = f"{len(rows)} rows here, {len(other_rows)} there; {len(missing)} only here, {len(extra)} only there"
        return [counts, *shorten("only here", missing), *shorten("only there", extra)]
    if is_ordered:
        for number, (one, other) in enumerate(zip(rows, other_rows)):
            if not is_same(one, other):
                return [f"the same rows in another order, from row {number}", *shorten("here", rows[number:]), *shorten("there", other_rows[number:])]
    return []


def shorten(title, rows):
    lines = [f"  {title}: {str(row)[:200]}" for row in rows[:3]]
    return lines + [f"  {title}: {len(rows) - 3} more"] if len(rows) > 3 else lines
