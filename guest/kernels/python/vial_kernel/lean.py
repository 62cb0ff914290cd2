# SPDX-License-Identifier: Apache-2.0
"""Imports IPython without its terminal half (prompt_toolkit and what hangs on it), which is more than half of the time.

`import IPython` wants IPython.terminal.embed for one function. We lend it a stand-in that loads the real one when it is called, and
take it away again, so that user code which imports IPython's terminal gets all of it. IPython.terminal.debugger looks for it as well, when the
terminal's shell is imported first (sympy does): a circle, unless it finds the stand-in in the package.
"""

import importlib
import sys
import types

_NAME = "IPython.terminal.embed"


def embed(*args, **kwargs):
    """Embed IPython: asks for a terminal, which a run does not have."""
    return importlib.import_module(_NAME).embed(*args, **kwargs)


def import_ipython():
    if "IPython" in sys.modules:
        return
    stand_in = types.ModuleType(_NAME)
    stand_in.embed = embed
    sys.modules[_NAME] = stand_in
    try:
        import IPython  # noqa: F401
    finally:
        sys.modules.pop(_NAME, None)
    stand_in.__getattr__ = lambda name: getattr(importlib.import_module(_NAME), name)
    importlib.import_module("IPython.terminal").embed = stand_in


import_ipython()
