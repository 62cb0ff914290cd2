# SPDX-License-Identifier: Apache-2.0
"""A cell that is nothing but Python, run without IPython's machinery.

IPython takes every cell through six functions, half of them coroutines, and dozens of traits. Each of them is quick; but a kernel that
was asleep has cold caches, and then the time is what has to be fetched. This is the same in one piece, for a cell that has nothing
of IPython's syntax and awaits nothing, in a shell that nobody has hooked into. All other cells go IPython's way, and so does one that
cannot be compiled: nothing has happened yet, and IPython knows how to say it. What is left behind (In, _i, linecache, last_execution_result) is the same.
"""

import ast
import bdb
import sys

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

# A cell with one of these may change how it, or what comes after it, has to be compiled.
_WORDS = ("await", "async", "__future__")
_PARSE_ONLY = ast.PyCF_ONLY_AST


def run(shell, source, cell):
    """What the cell came to, as IPython's run_cell() has it, or None when it is a cell for IPython. `cell` is `source` as IPython would compile it."""
    callbacks = shell.events.callbacks
    if (
        callbacks["pre_run_cell"]
        or any(word in cell for word in _WORDS)
        or shell.custom_exceptions
        or shell.ast_transformers
        or shell.logger.log_active
        or shell.ast_node_interactivity != "last_expr"
        or shell.trio_runner
    ):
        return None
    name = shell.compile.cache(cell, shell.execution_count, raw_code=source)
    try:
        codes = _compile(cell, name, shell.compile.flags)
    except Exception:
        return None
    result = ExecutionResult(ExecutionInfo(source, True, False, True, None))
    result.execution_count = shell.execution_count
    try:
        shell.events.trigger("pre_execute")
        shell.history_manager.store_inputs(shell.execution_count, cell, source)
        shell.displayhook.exec_result = result
        shell.last_execution_succeeded = _execute(shell, codes, result)
        shell.last_execution_result = result
        shell.displayhook.exec_result = None
        shell.execution_count += 1
    finally:
        shell.events.trigger("post_execute")
        if callbacks["post_run_cell"]:
            shell.events.trigger("post_run_cell", result)
    return result


def _compile(cell, name, flags):
    """One code object for each statement, as IPython has it; the last one shows its value."""
    body = compile(cell, name, "exec", flags | _PARSE_ONLY, True).body
    codes = [compile(ast.Module([node], []), name, "exec", flags, True) for node in body[:-1]]
    if body and isinstance(body[-1], ast.Expr):
        codes.append(compile(ast.Interactive(body[-1:]), name, "single", flags, True))
    elif body:
        codes.append(compile(ast.Module(body[-1:], []), name, "exec", flags, True))
    return codes


def _execute(shell, codes, result):
    """Whether nothing was raised."""
    __tracebackhide__ = "__ipython_bottom__"  # for IPython: what is above is not the user's
    names, scope = shell.user_ns, shell.user_global_ns
    shell.sys_excepthook, sys.excepthook = sys.excepthook, shell.excepthook
    try:
        try:
            for code in codes:
                exec(code, scope, names)
        finally:
            sys.excepthook = shell.sys_excepthook
    except SystemExit as error:
        result.error_in_exec = error
        shell.showtraceback(exception_only=True)
    except bdb.BdbQuit as error:
        result.error_in_exec = error
    except BaseException as error:
        result.error_in_exec = error
        shell.showtraceback(running_compiled_code=True)
    else:
        return True
    return False
