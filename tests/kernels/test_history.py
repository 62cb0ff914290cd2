# SPDX-License-Identifier: Apache-2.0
"""What IPython remembers and lets others change, each in a context of its own: plain cells do not go its way (vial_kernel/plain.py)."""
import pytest

from case import Case

CASES = [
    Case("what comes before a return outside a function has run", "print('first')\nreturn 2", stdout="first\n", error="SyntaxError"),
    Case("an underscore that the user has set stays his", ["_ = 5", "7", "8", "(_, _2)"], result="(5, 7)"),
    Case("the last three results", ["'a'", "'b'", "'c'", "(_, __, ___, Out[1])"], result="('c', 'b', 'a', 'a')"),
    Case("a result of None is none", ["4", "None", "_"], result="4"),
    Case("what was typed", ["x = 1", "x + 1", "(In[1], _i, _ii, _i2)"], result="('x = 1', 'x + 1', 'x = 1', 'x + 1')"),
    Case("a traceback has the lines of its cell", ["def f():\n    return 1 / 0", "def f2(): pass", "f()"], error="ZeroDivisionError", has=("----> 2     return 1 / 0", "Cell In[1]", "Cell In[3]")),
    Case("a callback before each cell is called",
         ["seen = []\nget_ipython().events.register('pre_run_cell', lambda info: seen.append(info.raw_cell))", "1", "seen"], result="['1', 'seen']"),
    Case("a callback after each cell is called",
         ["seen = []\nget_ipython().events.register('post_run_cell', lambda result: seen.append(result.result))", "1", "seen"], result="[None, 1]"),
    Case("a syntax tree that is changed before it runs",
         ["import ast\nclass Double(ast.NodeTransformer):\n    def visit_Constant(self, node): return ast.Constant(node.value * 2)\nget_ipython().ast_transformers.append(Double())", "21"],
         result="42"),
    Case("a future import holds for the cells after it", ["from __future__ import annotations", "def f(x: nowhere): pass", "f.__annotations__"], result="{'x': 'nowhere'}"),
    Case("every expression shows its value when that is wanted", ["%config InteractiveShell.ast_node_interactivity = 'all'", "1\n2"],
         check=lambda e: [one["text/plain"] for one in e["results"]] == ["1", "2"]),
    Case("a format that is registered for a number is used", ["get_ipython().display_formatter.formatters['text/html'].for_type(int, lambda n: f'<b>{n}</b>')", "6"], mimes=("text/plain", "text/html")),
    Case("an exception hook of the user's does not outlive its cell", ["import sys\nsys.excepthook = print", "1/0"], error="ZeroDivisionError", stdout=""),
    Case("a thousand results are forgotten without a word", "for i in range(1005): get_ipython().run_cell('1', store_history=True)\nlen(Out) < 1005", result="True", stderr=""),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_history(box, case):
    context = box.create("python")
    cells = [case.cells] if isinstance(case.cells, str) else case.cells
    for cell in cells[:-1]:
        assert box.run(cell, context=context)["exit_code"] == 0
    case.verify(box.run(cells[-1], context=context, **case.options))
    box.delete(context)
