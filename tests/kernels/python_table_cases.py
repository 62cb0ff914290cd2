# SPDX-License-Identifier: Apache-2.0
"""Tables as data: the index, what was cut, what JSON has no number for."""
from case import Case, data

PANDAS = ("pandas",)
FRAME = "import pandas as pd, numpy as np\ndf = pd.DataFrame({'city': ['Rome', 'Oslo', 'Rome'], 'year': [1, 1, 2], 'n': [1.5, 2.5, 4.0]})\n"


def is_data(expected):
    return lambda execution: data(execution) == expected


CASES = [
    Case("value_counts() keeps its values", FRAME + "df['city'].value_counts()", needs=PANDAS,
         check=is_data({"city": ["Rome", "Oslo"], "count": [2, 1], "__index__": ["city"]})),
    Case("groupby() keeps its keys", "df.groupby('city')['n'].mean()", needs=PANDAS, check=is_data({"city": ["Oslo", "Rome"], "n": [2.5, 2.75], "__index__": ["city"]})),
    Case("groupby() of two keys keeps both", "df.groupby(['city', 'year']).sum()", needs=PANDAS,
         check=is_data({"city": ["Oslo", "Rome", "Rome"], "year": [1, 1, 2], "n": [2.5, 1.5, 4.0], "__index__": ["city", "year"]})),
    Case("size() has no name but its keys", "df.groupby('city').size()", needs=PANDAS, check=is_data({"city": ["Oslo", "Rome"], "0": [1, 2], "__index__": ["city"]})),
    Case("describe() keeps the names of its rows", "df[['n']].describe()", needs=PANDAS,
         check=lambda e: data(e)["index"] == ["count", "mean", "std", "min", "25%", "50%", "75%", "max"] and data(e)["__index__"] == ["index"]),
    Case("a selection keeps the numbers of its rows", "df[df.n > 2]", needs=PANDAS,
         check=is_data({"index": [1, 2], "city": ["Oslo", "Rome"], "year": [1, 2], "n": [2.5, 4.0], "__index__": ["index"]})),
    Case("an index of times is ISO", "pd.Series([1, 2], index=pd.date_range('2024-01-01', periods=2), name='v')", needs=PANDAS,
         check=is_data({"index": ["2024-01-01T00:00:00", "2024-01-02T00:00:00"], "v": [1, 2], "__index__": ["index"]})),
    Case("levels without a name are numbered", "pd.DataFrame({'v': [1]}, index=pd.MultiIndex.from_tuples([('a', 'b')]))", needs=PANDAS,
         check=is_data({"level_0": ["a"], "level_1": ["b"], "v": [1], "__index__": ["level_0", "level_1"]})),
    Case("a pivot table has both", "df.pivot_table(index='city', columns='year', values='n')", needs=PANDAS,
         check=is_data({"city": ["Oslo", "Rome"], "1": [2.5, 1.5], "2": [None, 4.0], "__index__": ["city"]})),
    Case("an index of a column's name leaves the column", "pd.DataFrame({'a': [1]}, index=pd.Index([9], name='a'))", needs=PANDAS,
         check=is_data({"a": [9], "a.2": [1], "__index__": ["a"]})),
    Case("an index that only counts is left out", "df[['n']]", needs=PANDAS, check=is_data({"n": [1.5, 2.5, 4.0]})),
    Case("infinite values are marked, missing ones null", "pd.DataFrame({'v': [1.5, np.inf, -np.inf, np.nan]})", needs=PANDAS,
         check=is_data({"v": [1.5, "Infinity", "-Infinity", None]})),
    Case("a table that is cut tells its rows", "pd.DataFrame({'v': range(20_000)}, index=range(1, 20_001))", needs=PANDAS,
         check=lambda e: data(e)["__truncated__"] == {"rows": 20_000, "columns": 1} and data(e)["index"][-1] == 10_000 and len(data(e)["v"]) == 10_000),
    Case("and its columns", "pd.DataFrame([range(300)])", needs=PANDAS, check=lambda e: data(e)["__truncated__"] == {"rows": 1, "columns": 300} and len(data(e)) == 257),
    Case("a long list in a cell says that it goes on", "pd.DataFrame({'v': [list(range(150))]})", needs=PANDAS,
         check=lambda e: data(e)["v"][0][99:] == [99, "… 50 more"]),
    Case("a polars frame tells NaN from null", "import polars as pl\npl.DataFrame({'v': [1.5, float('nan'), None, float('inf')]})", needs=("polars",),
         check=is_data({"v": [1.5, "NaN", None, "Infinity"]})),
    Case("a polars series has its name", "pl.Series('s', [1, None])", needs=("polars",), check=is_data({"s": [1, None]})),
]
