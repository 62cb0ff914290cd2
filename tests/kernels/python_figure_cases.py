# SPDX-License-Identifier: Apache-2.0
"""matplotlib's figures are seen, whatever backend was chosen. Each case leaves the inline backend behind."""
from case import Case
from runners import is_png

PLOT = "import matplotlib, matplotlib.pyplot as plt\n"
BACK = "%matplotlib inline"


def pictures(execution):
    return [bundle for bundle in execution["results"] if "image/png" in bundle]


def shows_one(execution):
    return len(pictures(execution)) == 1 and is_png(pictures(execution)[0]["image/png"])


def falls_back(execution):
    return shows_one(execution) and "figures are shown inline" in execution["stderr"]


CASES = [
    Case(f"a figure is shown with {choice}", f"{PLOT}{choice}; plt.plot([1, 2]);", needs=("matplotlib",), stderr="", check=shows_one)
    for choice in ("matplotlib.use('Agg')", "plt.switch_backend('agg')", "matplotlib.use('svg')", "matplotlib.use('pdf')", "matplotlib.use('ps')")
] + [
    Case("it is in the cells after that too", [f"{PLOT}matplotlib.use('Agg')", "plt.plot([1, 2]);"], needs=("matplotlib",), check=shows_one),
    Case("and closed: figures do not pile up", ["plt.plot([1]);", "plt.get_fignums()"], needs=("matplotlib",), result="[]"),
    Case("show() shows at once and without a warning", "plt.plot([1]); plt.show(); print(plt.get_fignums())", needs=("matplotlib",), stdout="[]\n", stderr="", check=shows_one),
    Case("a figure that is the value is shown once", "fig = plt.figure(); plt.plot([1]); fig", needs=("matplotlib",),
         check=lambda e: shows_one(e) and len(e["results"]) == 1),
    Case("a figure that is saved is shown once", "plt.plot([1]); plt.savefig('/workspace/case_agg.png')", needs=("matplotlib",), files=("/workspace/case_agg.png",),
         check=shows_one),
    Case("a figure that is saved and closed is not shown", "plt.plot([1]); plt.savefig('/workspace/case_agg.png'); plt.close()", needs=("matplotlib",),
         check=lambda e: pictures(e) == []),
    Case("a figure of a cell that fails is shown", "plt.plot([1])\n1/0", needs=("matplotlib",), error="ZeroDivisionError", check=shows_one),
    Case("the figures of a script that chooses Agg are shown",
         ["open('/workspace/case_agg.py', 'w').write(\"import matplotlib\\nmatplotlib.use('Agg')\\nimport matplotlib.pyplot as plt\\nplt.plot([1])\\n\"); None",
          "%run /workspace/case_agg.py"], needs=("matplotlib",), check=shows_one),
    Case("a figure drawn before the backend changes is shown once", [BACK, "plt.plot([1]); matplotlib.use('Agg')"], needs=("matplotlib",), check=shows_one),
    Case("and one drawn before it changes back", f"plt.plot([1])\n{BACK}", needs=("matplotlib",), check=shows_one),
    Case("a figure that is saved is shown once inline as well", "plt.plot([1]); plt.savefig('/workspace/case_inline.png')", needs=("matplotlib",), check=shows_one),
    Case("ioff() keeps a figure until show()", ["plt.ioff(); plt.plot([1]);", "plt.show(); plt.ion();"], needs=("matplotlib",), check=shows_one),
] + [
    Case(f"%matplotlib {name} is inline, and says so", f"%matplotlib {name}\nplt.plot([1]);", needs=("matplotlib",), check=falls_back)
    for name in ("notebook", "widget", "qt", "tk")
] + [
    Case(f"matplotlib.use({name!r}) is inline, and says so", f"matplotlib.use({name!r}); plt.plot([1]);", needs=("matplotlib",), check=falls_back)
    for name in ("TkAgg", "Qt5Agg", "nbAgg", "WebAgg")
] + [
    Case("a backend that nobody knows is an error that names it", "matplotlib.use('nosuch')", needs=("matplotlib",), error="ValueError", has=("nosuch",)),
    Case("%matplotlib inline says nothing", BACK, needs=("matplotlib",), stderr="", stdout=""),
]
