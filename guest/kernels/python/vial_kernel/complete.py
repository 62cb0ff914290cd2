# SPDX-License-Identifier: Apache-2.0
"""What the word before the cursor may become. `vial repl` asks for it in a cell of its own, which leaves no trace. Imported by that cell."""

from IPython import get_ipython

MAX_MATCHES = 200


def show(text):
    """Prints the word and what it may become, each on a line."""
    shell = get_ipython()
    _leave_no_trace(shell)
    line = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").rpartition("\n")[2]
    # jedi reads sources, which takes seconds at first; the objects themselves are here.
    shell.Completer.use_jedi = False
    word, matches = shell.complete("", line, len(line))
    print(word, *dict.fromkeys(match for match in matches[:MAX_MATCHES] if match.startswith(word)), sep="\n")


def _leave_no_trace(shell):
    """The cell has its number and is in the history before it runs; both are taken back when it has."""
    count = shell.execution_count
    inputs = {name: shell.user_ns.get(name) for name in ("_i", "_ii", "_iii")}

    def restore(_result):
        shell.events.unregister("post_run_cell", restore)
        history = shell.history_manager
        del history.input_hist_parsed[count:], history.input_hist_raw[count:]
        history._i00, history._i, history._ii, history._iii = history._i, history._ii, history._iii, ""
        shell.user_ns.update(_i=inputs["_ii"], _ii=inputs["_iii"])
        shell.user_ns.pop(f"_i{count}", None)
        shell.execution_count = count
        shell.is_aside = True

    shell.events.register("post_run_cell", restore)
