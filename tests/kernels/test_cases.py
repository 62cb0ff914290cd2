# SPDX-License-Identifier: Apache-2.0
"""The table: every case is a sentence about what a notebook does."""
import pytest

import bash_cases
import javascript_cases
import python_cases
import python_chart_cases
import python_display_cases
import python_figure_cases
import python_page_cases
import python_table_cases

TABLE = [
    pytest.param(language, case, id=f"{language}: {case.says}")
    for language, cases in (
        ("python", python_cases.CASES),
        ("python", python_figure_cases.CASES),
        ("python", python_display_cases.CASES),
        ("python", python_table_cases.CASES),
        ("python", python_chart_cases.CASES),
        ("python", python_page_cases.CASES),
        ("javascript", javascript_cases.CASES),
        ("typescript", javascript_cases.TYPESCRIPT_CASES),
        ("bash", bash_cases.CASES),
    )
    for case in cases
]


@pytest.mark.parametrize("language, case", TABLE)
def test_case(box, needs, language, case):
    needs(*case.needs)
    cells = [case.cells] if isinstance(case.cells, str) else case.cells
    for cell in cells[:-1]:
        box.run(cell, language)
    case.verify(box.run(cells[-1], language, **case.options))


def test_the_table_is_as_long_as_it_should_be():
    assert len(TABLE) >= 150
    names = [param.id for param in TABLE]
    assert len(set(names)) == len(names)
