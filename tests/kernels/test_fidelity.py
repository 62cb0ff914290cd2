# SPDX-License-Identifier: Apache-2.0
"""Where a notebook is the norm: the same cells through the image's own Jupyter (jupyter_client and ipykernel) and through us, side by side.

A cell names what it wants to differ in, and why; whatever else differs is a failure, and so is a difference that is gone.
"""
import json
import os
from dataclasses import dataclass, field

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
FIELDS = ("stdout", "stderr", "texts", "mimes", "error_name")


@dataclass
class Cell:
    code: str
    differs: dict = field(default_factory=dict)  # field: why


CELLS = [
    Cell("1+1"), Cell("x = 5"), Cell("x;"), Cell("None"), Cell("'text'"), Cell("_"), Cell("print('a'); 3"), Cell(""),
    Cell("[i ** 2 for i in range(40)]"), Cell("{'a': [1, 2], 'b': None}"), Cell("list(range(1200))"), Cell("float('nan'), 1e300, 2 ** 70, -0.0"),
    Cell("import sys\nprint('o'); print('e', file=sys.stderr)"), Cell("print('no newline', end='')"),
    Cell("display(1, 'two'); 3"), Cell("from IPython.display import *\nHTML('<b>x</b>')"), Cell("Markdown('# x')"), Cell("JSON({'a': 1})"), Cell("Latex('$x$')"),
    Cell("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')"),
    Cell("print('a'); clear_output(); print('b')"), Cell("print('a'); clear_output(wait=True); print('b')"), Cell("print('a'); clear_output(wait=True)"),
    Cell("display(1, display_id='f'); display(2); update_display(3, display_id='f')"),
    Cell("h = display('x', display_id=True); h.update('y'); h.update('z')"),
    Cell("1/0"), Cell("undefined_here"), Cell("def f(:"), Cell("raise ValueError('v')"), Cell("class E(Exception): pass\nraise E"), Cell("assert False"),
    Cell("%nosuch"), Cell("%%nosuch\n1"),
    Cell("%%capture out\nprint('c')"), Cell("out.stdout"), Cell("%who_ls int"), Cell("x = !echo hi\nlist(x)"), Cell("!echo out", {"stdout": "Jupyter gives a command a terminal, which ends lines with a carriage return"}),
    Cell("class H:\n    def _repr_html_(self): return '<i>h</i>'\n    def __repr__(self): return 'H'\nH()"),
    Cell("import asyncio\nawait asyncio.sleep(0); 'awaited'"),
    Cell("import matplotlib.pyplot as plt\nplt.plot([1, 2]);"), Cell("plt.plot([1, 2]); plt.show(); print('after')"), Cell("fig, ax = plt.subplots(); ax.plot([1]); fig",
         {"texts": "a figure that is the value is shown once", "mimes": "the same"}),
    Cell("plt.plot([1]); plt.savefig('/tmp/f.png'); plt.close()"), Cell("plt.plot([1]); plt.savefig('/tmp/f.png')"), Cell("plt.get_fignums()"),
    Cell("plt.ioff(); plt.plot([1]);"), Cell("plt.ion(); plt.show()"),
    Cell("import matplotlib\nmatplotlib.use('Agg'); plt.plot([1]);", {"texts": "in Jupyter nobody sees the figure", "mimes": "the same"}),
    Cell("plt.close('all')\n%matplotlib inline"),
    Cell("import pandas as pd\npd.DataFrame({'a': [1, 2]})"), Cell("pd.Series([1.5, None], name='s')"), Cell("pd.DataFrame({'a': range(100)})"),
    Cell("import sympy\nsympy.sqrt(8)"), Cell("sympy.init_printing()\nsympy.sqrt(8)"),
    Cell("class B:\n    def _repr_html_(self): raise ValueError('b')\n    def __repr__(self): return 'B'\nB()",
         {"stderr": "Jupyter sends the traceback of the failed representation as an error output; ours is on stderr",
          "error_name": "and its ipykernel calls the cell failed, by the name NoneType; the plain text is there, so we do not"}),  # last: the cell after it fails there, too
]


@pytest.fixture(scope="module")
def compared(box):
    """[(cell, theirs, ours)], each a dict of FIELDS."""
    if box.name != "http":
        pytest.skip("only viald makes one answer of what is shown, cleared and replaced")
    have = box.run("import importlib.util\nall(importlib.util.find_spec(name) for name in ('ipykernel', 'jupyter_client', 'matplotlib', 'pandas', 'sympy'))")
    if have["results"][-1]["text/plain"] != "True":
        pytest.skip("the image has no ipykernel with jupyter_client, matplotlib, pandas and sympy")
    with open(os.path.join(HERE, "jupyter_norm.py"), "rb") as file:
        box.write("/workspace/jupyter_norm.py", file.read())
    box.write("/workspace/jupyter_cells.json", json.dumps([cell.code for cell in CELLS]).encode())
    asked = box.run("import subprocess, sys\nmade = subprocess.run([sys.executable, '/workspace/jupyter_norm.py', '/workspace/jupyter_cells.json'], capture_output=True, text=True)\n"
                    "print(made.stdout)\nassert made.returncode == 0, made.stderr[-2000:]", timeout=300)
    assert asked["exit_code"] == 0, asked["error"]
    context = box.create("python")
    ours = [box.run(cell.code, context=context) for cell in CELLS]
    box.delete(context)
    return [(cell, _of_theirs(one), _of_ours(other)) for cell, one, other in zip(CELLS, json.loads(asked["stdout"]), ours)]


def _of_theirs(answer):
    shown = answer["results"]
    return {**answer, "texts": [_without_addresses(one["text"]) for one in shown], "mimes": [one["mimes"] for one in shown]}


def _of_ours(execution):
    shown = execution["results"]
    # What we add is ours.
    mimes = [sorted(mime for mime in bundle if not mime.startswith("application/vnd.vial.")) for bundle in shown]
    return {"stdout": execution["stdout"], "stderr": execution["stderr"], "error_name": execution.get("error_name"), "mimes": mimes,
            "texts": [_without_addresses(bundle.get("text/plain")) for bundle in shown]}


def _without_addresses(text):
    import re

    return re.sub(r"0x[0-9a-f]+", "0x…", text or "")


def test_cells_show_what_they_show_in_jupyter(compared):
    found = [(cell.code, name, theirs[name], ours[name]) for cell, theirs, ours in compared for name in FIELDS
             if theirs[name] != ours[name] and name not in cell.differs]
    assert not found, "\n".join(f"{code!r}: {name} is {ours!r}, in Jupyter {theirs!r}" for code, name, theirs, ours in found)


def test_every_wanted_difference_is_one(compared):
    gone = [(cell.code, name) for cell, theirs, ours in compared for name in cell.differs if theirs[name] == ours[name]]
    assert not gone
