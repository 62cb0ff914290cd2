# SPDX-License-Identifier: Apache-2.0
"""What cells show by hand: errors that others print, representations that fail, widgets without a page."""
from case import Case, main

HALF = "class Half:\n    def _repr_html_(self): raise ValueError('no page')\n    def __repr__(self): return '<half>'\n"

CASES = [
    # Errors that somebody else shows
    Case("an unknown line magic is an error", "%nosuchmagic", error="UsageError", has=("nosuchmagic",)),
    Case("an unknown cell magic is an error", "%%nosuchcellmagic\n1", error="UsageError", has=("nosuchcellmagic",)),
    Case("a magic that is misused is an error", "%timeit -z 1", error="UsageError"),
    Case("an exception that rich shows is an error", ["import rich.traceback\nrich.traceback.install(); None", "1/0"], needs=("rich",), error="ZeroDivisionError",
         has=("division by zero", "╭")),
    Case("so is a syntax error", "def f(:", needs=("rich",), error="SyntaxError"),
    Case("and a cell after it succeeds", "1+1", result="2"),
    Case("IPython's own tracebacks come back", ["ip = get_ipython()\nfor name in ('showtraceback', '_showtraceback', 'showsyntaxerror'): vars(ip).pop(name, None)", "1/0"],
         error="ZeroDivisionError", has=("----> 1 1/0",)),
    Case("an exception that a handler of the user's shows is an error", ["get_ipython().set_custom_exc((KeyError,), lambda *a, **k: print('handled')); None", "{}['k']"],
         error="KeyError", stdout="handled\n"),
    Case("until the handler is taken out", ["get_ipython().set_custom_exc((), None)", "{}['k']"], error="KeyError", stdout=""),
    # Representations that fail
    Case("a representation that fails is left out and told on stderr", HALF + "Half()", result="<half>", has=("ValueError: no page",),
         check=lambda e: "ValueError: no page" in e["stderr"]),
    Case("in display() too", "display(Half()); print('after')", stdout="after\n", check=lambda e: e["results"][0] == {"text/plain": "<half>"}),
    Case("an object with no representation at all is an error", "class Mute:\n    def __repr__(self): raise ValueError('no repr')\nMute()", error="ValueError", result=""),
    Case("a list of such is one as well", "[Mute()]", error="ValueError", result=""),
    # sympy
    Case("sympy's init_printing() keeps LaTeX", ["import sympy\nsympy.init_printing()", "sympy.sqrt(8)"], needs=("sympy",), mimes=("text/latex",),
         check=lambda e: "sqrt{2}" in e["results"][-1]["text/latex"]),
    Case("also for lists", "[sympy.Symbol('x')**2, 1]", needs=("sympy",), mimes=("text/latex",)),
    Case("init_printing(pretty_print=False) takes it back", ["sympy.init_printing(pretty_print=False)", "[1]"], needs=("sympy",),
         check=lambda e: set(e["results"][-1]) == {"text/plain"}),
    Case("IPython's terminal can be imported in any order", "from IPython.terminal.interactiveshell import TerminalInteractiveShell\nimport IPython.terminal.embed as e\n"
         "issubclass(e.InteractiveShellEmbed, TerminalInteractiveShell)", result="True"),
    # Widgets
    Case("tqdm.notebook draws its bar as text", "from tqdm.notebook import tqdm, trange\nfor i in tqdm(range(3), display=True, ncols='100%'): pass\nfor i in trange(2): pass",
         needs=("tqdm",), check=lambda e: "3/3" in e["stderr"] and "2/2" in e["stderr"] and e["results"] == []),
    Case("tqdm.auto draws it as well", "from tqdm.auto import tqdm\nfor i in tqdm(range(4)): pass", needs=("tqdm",), check=lambda e: "4/4" in e["stderr"]),
    Case("a widget is its text", "import ipywidgets as w\nw.IntSlider(value=3)", needs=("ipywidgets",), result="IntSlider(value=3)",
         check=lambda e: set(e["results"][0]) == {"text/plain"}),
    Case("and has a value that can be observed", "s = w.IntSlider(value=3); s.observe(lambda c: print(c['new']), 'value'); s.value = 7", needs=("ipywidgets",), stdout="7\n"),
    Case("interact() calls its function once and clears nothing", "print('before')\n@w.interact(x=(0, 10))\ndef f(x): print('called', x)", needs=("ipywidgets",),
         stdout="before\ncalled 5\n", stderr=""),
    Case("what an Output widget catches is the cell's", "o = w.Output()\nwith o:\n    print('inside')\n    display(5)", needs=("ipywidgets",), stdout="inside\n",
         check=lambda e: main(e) == "5"),
    Case("a box of widgets is text", "w.VBox([w.Text('a'), w.Button(description='go')])", needs=("ipywidgets",), has=("VBox(children=", "Button(")),
]
