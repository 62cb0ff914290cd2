# SPDX-License-Identifier: Apache-2.0
"""application/vnd.vial.data+json: a table's values by column, {"column": [value, ...]}.

Times are ISO 8601, missing values null. A table beyond the limits is cut, and the key "__truncated__" tells its real size.
"""

import datetime

MIME = "application/vnd.vial.data+json"
MAX_ROWS = 10_000
MAX_COLUMNS = 256
MAX_VALUES = 200_000
MAX_TEXT = 2_000
TRUNCATED = "__truncated__"


def of_frame(frame):
    """A pandas DataFrame."""
    rows, columns = frame.shape
    keep_columns = min(columns, MAX_COLUMNS)
    keep_rows = min(rows, MAX_ROWS, max(1, MAX_VALUES // max(1, keep_columns)))
    part = frame.iloc[:keep_rows, :keep_columns]
    table = {}
    for position, name in enumerate(part.columns):
        table[_unique(table, _label(name))] = [value_of(value) for value in _values(part.iloc[:, position])]
    return _mark(table, rows, columns, keep_rows, keep_columns)


def of_series(series):
    """A pandas Series: one column, called after it."""
    return of_frame(series.to_frame())


def of_polars(frame):
    """A polars DataFrame."""
    rows, columns = frame.shape
    keep_columns = min(columns, MAX_COLUMNS)
    keep_rows = min(rows, MAX_ROWS, max(1, MAX_VALUES // max(1, keep_columns)))
    part = frame[:keep_rows, :keep_columns]
    table = {name: [value_of(value) for value in values] for name, values in part.to_dict(as_series=False).items()}
    return _mark(table, rows, columns, keep_rows, keep_columns)


def value_of(value):
    """One cell as JSON has it."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + "…"
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        # pandas' NaT is a datetime whose year is not a number.
        return None if value != value else value.isoformat()
    if isinstance(value, (list, tuple)):
        return [value_of(item) for item in value[:100]]
    if isinstance(value, dict):
        return {str(key): value_of(item) for key, item in list(value.items())[:100]}
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value_of(value.item())
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    text = str(value)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _values(column):
    """A column's cells as Python objects, times as times."""
    return column.tolist()


def _label(name):
    return " ".join(str(part) for part in name if str(part)) if isinstance(name, tuple) else str(name)


def _unique(table, label):
    if label not in table:
        return label
    number = 2
    while f"{label}.{number}" in table:
        number += 1
    return f"{label}.{number}"


def _mark(table, rows, columns, keep_rows, keep_columns):
    if keep_rows < rows or keep_columns < columns:
        table[TRUNCATED] = {"rows": rows, "columns": columns}
    return table
