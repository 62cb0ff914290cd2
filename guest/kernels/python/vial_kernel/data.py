# SPDX-License-Identifier: Apache-2.0
"""application/vnd.vial.data+json: a table's values by column, {"column": [value, ...]}.

An index that says something comes first, as columns, and the key "__index__" names them; one that only counts the rows is left out. Times are ISO
8601, missing values null, infinite ones "Infinity" and "-Infinity", which JSON has no numbers for. A table beyond the limits is cut, and the key
"__truncated__" tells its real size.
"""

import datetime

MIME = "application/vnd.vial.data+json"
MAX_ROWS = 10_000
MAX_COLUMNS = 256
MAX_VALUES = 200_000
MAX_TEXT = 2_000
MAX_ITEMS = 100  # of a list or a dict in a cell
TRUNCATED = "__truncated__"
INDEX = "__index__"


def of_frame(frame):
    """A pandas DataFrame."""
    rows, columns = frame.shape
    levels = 0 if _only_counts(frame.index) else frame.index.nlevels
    keep_columns = min(columns, MAX_COLUMNS)
    keep_rows = _rows_that_fit(rows, keep_columns + levels)
    part = frame.iloc[:keep_rows, :keep_columns]
    table = {}
    for level in range(levels):
        values = part.index.get_level_values(level)
        table[_unique(table, _index_label(values.name, level, levels))] = [value_of(value) for value in values.tolist()]
    index = list(table)
    for position, name in enumerate(part.columns):
        table[_unique(table, _label(name))] = [value_of(value) for value in part.iloc[:, position].tolist()]
    if index:
        table[INDEX] = index
    return _mark(table, rows, columns, keep_rows, keep_columns)


def of_series(series):
    """A pandas Series: one column, called after it."""
    return of_frame(series.to_frame())


def of_polars(frame):
    """A polars DataFrame."""
    rows, columns = frame.shape
    keep_columns = min(columns, MAX_COLUMNS)
    keep_rows = _rows_that_fit(rows, keep_columns)
    part = frame[:keep_rows, :keep_columns]
    # There NaN is a number; what is missing is None.
    table = {
        name: ["NaN" if value != value else value_of(value) for value in values]
        for name, values in part.to_dict(as_series=False).items()
    }
    return _mark(table, rows, columns, keep_rows, keep_columns)


def of_polars_series(series):
    """A polars Series: one column, called after it."""
    return of_polars(series.to_frame())


def value_of(value):
    """One cell as JSON has it."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + "…"
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        # pandas' NaT is a datetime whose year is not a number.
        return None if value != value else value.isoformat()
    if isinstance(value, (list, tuple)):
        return [value_of(item) for item in value[:MAX_ITEMS]] + _more(value)
    if isinstance(value, dict):
        items = {str(key): value_of(item) for key, item in list(value.items())[:MAX_ITEMS]}
        return {**items, "…": _more(value)[0]} if len(value) > MAX_ITEMS else items
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value_of(value.item())
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    text = str(value)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _more(values):
    return [f"… {len(values) - MAX_ITEMS} more"] if len(values) > MAX_ITEMS else []


def _rows_that_fit(rows, columns):
    return min(rows, MAX_ROWS, max(1, MAX_VALUES // max(1, columns)))


def _only_counts(index):
    return type(index).__name__ == "RangeIndex" and index.name is None and index.start == 0 and index.step == 1


def _index_label(name, level, levels):
    """As reset_index() would call it."""
    return _label(name) if name is not None else "index" if levels == 1 else f"level_{level}"


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
