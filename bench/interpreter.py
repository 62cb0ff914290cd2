# SPDX-License-Identifier: Apache-2.0
"""The interpreter's promises: hot runs beside Jupyter on the bare host, the first run after a create, and floods of output."""

import functools
import subprocess
import sys
import textwrap
import time

from harness import Daemon, percentile, ratio_row, stats, timed

# Answers each line, a number, with the times of so many runs.
JUPYTER = textwrap.dedent("""
    import sys, time
    from jupyter_client.manager import start_new_kernel
    manager, client = start_new_kernel(kernel_name="python3")
    client.execute_interactive("1+1", silent=False, output_hook=lambda m: None, timeout=60)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            client.execute_interactive("1+1", output_hook=lambda m: None, timeout=60)
            times.append((time.perf_counter() - start) * 1000)
        print(*times, flush=True)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
""")
TURN = 10


class Jupyter:
    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", JUPYTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return self

    def times(self, n):
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        found = [float(word) for word in self.process.stdout.readline().split()]
        if len(found) != n:
            raise RuntimeError("jupyter_client and ipykernel do not run on this machine")
        return found

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)


# Python is what is promised beside IPython's own kernel; the other languages have no such neighbour.
HOT = {"python": ("1+1", 0.25), "javascript": ("1+1", 0.5), "bash": ("echo 2", 0.5)}


def hot(n):
    rows = []
    with Daemon(pool_size=0, template="code-interpreter") as daemon, Jupyter() as jupyter:
        sandbox = daemon.create()
        for language, (code, limit) in HOT.items():
            ours, floor = [], []
            daemon.run(sandbox, code, language)
            for _ in range(n // TURN):
                floor += jupyter.times(TURN)
                ours += [timed(lambda: daemon.run(sandbox, code, language)) for _ in range(TURN)]
            rows.append(ratio_row(f"hot run {code!r} ({language})", ours, floor, "jupyter_client + ipykernel on the host", limit,
                                  distribution_ms=[round(percentile(ours, share), 2) for share in (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)]))
    return rows


def second_context(n):
    """From asking for another context to its first answer, beside the first answer of the context that a sandbox comes with."""
    ours, floor = [], []
    with Daemon(pool_size=0, template="code-interpreter") as daemon:
        for _ in range(n):
            sandbox = daemon.create()
            floor.append(timed(lambda: daemon.run(sandbox)))
            start = time.perf_counter()
            context = daemon.call("POST", f"/sandboxes/{sandbox}/repl/sessions", {"language": "python"})["id"]
            daemon.call("POST", f"/sandboxes/{sandbox}/repl/sessions/{context}/run", {"code": "1+1"})
            ours.append((time.perf_counter() - start) * 1000)
            daemon.delete(sandbox)
    return [ratio_row("a second context: first answer", ours, floor, "the first context's first answer", 3)]


def first(n):
    spent = []
    with Daemon(pool_size=0, template="code-interpreter") as daemon:
        for _ in range(n):
            sandbox = daemon.create()
            spent.append(timed(lambda: daemon.run(sandbox)))
            daemon.delete(sandbox)
    return [{"case": "first run after a restored create", **stats(spent), "value": percentile(spent, 0.5), "unit": "ms", "at_most": 60}]


# A figure of each library whose figures are pages, as `figure`.
PAGES = {
    "plotly": "import plotly.graph_objects as go\nfigure = go.Figure(go.Bar(x=[1, 2], y=[2, 3]))",
    "bokeh": "from bokeh.plotting import figure as new, show\nfigure = new(); figure.line([1, 2], [2, 3])",
    "altair": "import altair, pandas\nfigure = altair.Chart(pandas.DataFrame({'a': [1, 2]})).mark_bar().encode(x='a')",
}


def pictures(n):
    """A page with its still picture, once the library and what draws it are there."""
    rows = []
    with Daemon(pool_size=0, template="code-interpreter") as daemon:
        sandbox = daemon.create()
        for library, code in PAGES.items():
            body = {"code": "show(figure)" if library == "bokeh" else "figure", "images": True}
            draw = functools.partial(daemon.call, "POST", f"/sandboxes/{sandbox}/run", body)
            daemon.run(sandbox, code)
            assert "image/png" in draw()["results"][0], f"{library} has no picture"
            spent = [timed(draw) for _ in range(n)]
            rows.append({"case": f"{library}: a figure with its picture, once warm", **stats(spent), "value": percentile(spent, 0.5), "unit": "ms", "at_most": 1000})
        daemon.delete(sandbox)
    return rows


def flood():
    megabytes = 100
    with Daemon(pool_size=0) as daemon:
        sandbox = daemon.create()
        before = daemon.resident_mb()
        start = time.perf_counter()
        answer = daemon.run(sandbox, f"line = 'x' * 99 + '\\n'\nfor _ in range({megabytes} * 10): print(line * 1000, end='')")
        spent = time.perf_counter() - start
        grown = daemon.resident_mb() - before
        metrics = daemon.call("GET", f"/sandboxes/{sandbox}/metrics")
        assert answer["truncated"], "the answer was not capped"
        assert len(answer["stdout"]) < 8 * 1024 * 1024
        daemon.delete(sandbox)
    return [{"case": "a cell that prints 100 MB", "value": round(megabytes / spent, 1), "unit": "MB/s", "at_least": 50},
            {"case": "viald's memory meanwhile", "value": round(grown, 1), "unit": "MB more", "at_most": 32},
            {"case": "memory in the guest afterwards", "value": round(metrics["memory_used_kb"] / 1024), "unit": "MB", "at_most": 512}]


def cases(quick):
    n = 100 if quick else 200
    return [functools.partial(hot, n), functools.partial(first, 5 if quick else 20), functools.partial(second_context, 3 if quick else 10),
            functools.partial(pictures, 5 if quick else 20), flood]
