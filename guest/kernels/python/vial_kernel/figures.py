# SPDX-License-Identifier: Apache-2.0
"""matplotlib's figures: whatever backend pyplot has, those that are open at the end of a cell are shown once and closed.

matplotlib's inline backend does so for itself. Programs choose another one out of habit (matplotlib.use('Agg')), whose figures would be seen by
nobody and pile up; and backends that want a window or a page that answers, of which there is none.
"""

import functools
import sys

from . import imports

INLINE = "module://matplotlib_inline.backend_inline"
_INLINE_NAMES = ("inline", INLINE)
# They write files and want nobody to look on.
_FILE_BACKENDS = ("agg", "svg", "pdf", "ps", "cairo", "pgf", "template")


def install(shell):
    """Once for a shell. Nothing happens before matplotlib is imported."""
    formatter = shell.display_formatter.formatters["image/png"]
    formatter.for_type_by_name("matplotlib.figure", "Figure", _png_of)
    imports.after("matplotlib.pyplot", lambda pyplot: _keep_to_what_can_be_seen(pyplot, shell))
    imports.after("matplotlib.pyplot", lambda pyplot: shell.events.register("post_execute", functools.partial(_show_open, pyplot)))


def close_if_figure(value):
    """A figure that was the cell's value has been shown; it must not be shown again when the cell ends."""
    figure_module = sys.modules.get("matplotlib.figure")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if figure_module and pyplot and isinstance(value, figure_module.Figure):
        pyplot.close(value)


def name_for_magic(name):
    """The backend that %matplotlib is to choose when it was asked for `name`."""
    if name in (None, "auto"):
        return "inline"
    if name in _INLINE_NAMES or name.lower() in _FILE_BACKENDS:
        return name
    _say_inline(name)
    return "inline"


def _say_inline(name):
    print(f"matplotlib's backend {name!r} needs a window or a page that answers, and there is none here: figures are shown inline", file=sys.stderr)


def _png_of(figure):
    """Also of figures that were made without pyplot."""
    from IPython.core.pylabtools import print_figure

    return print_figure(figure, fmt="png", base64=True)


def _show_open(pyplot):
    """At the end of every cell."""
    figures = pyplot._pylab_helpers.Gcf.figs
    if figures and not _is_left_to_inline(pyplot):
        _show_all(pyplot)


def _is_left_to_inline(pyplot):
    """The inline backend has shown what there was, unless it was told to wait (ioff()) or to keep figures open."""
    if pyplot.rcParams._get("backend") not in _INLINE_NAMES:
        return False
    inline = sys.modules.get("matplotlib_inline.config")
    return not pyplot.isinteractive() or (inline is not None and not inline.InlineBackend.instance().close_figures)


def _show_all(pyplot):
    from IPython.display import display

    try:
        for manager in pyplot._pylab_helpers.Gcf.get_all_fig_managers():
            display(manager.canvas.figure)
    finally:
        pyplot.close("all")


def _keep_to_what_can_be_seen(pyplot, shell):
    """Inline instead of an error for matplotlib.use('TkAgg') and the like; and where files are written, show() shows, in its place between the prints."""
    original = pyplot.switch_backend

    @functools.wraps(original)
    def switch_backend(newbackend):
        if isinstance(newbackend, str) and _wants_somebody(newbackend):
            _say_inline(newbackend)
            shell.enable_matplotlib("inline")
            return
        original(newbackend)
        if isinstance(newbackend, str) and newbackend.lower() in _FILE_BACKENDS:
            pyplot._backend_mod.show = lambda *args, **kwargs: _show_all(pyplot)

    pyplot.switch_backend = switch_backend


def _wants_somebody(name):
    from matplotlib.backends import backend_registry

    if name in _INLINE_NAMES or name.lower() in _FILE_BACKENDS:
        return False
    try:
        return backend_registry.resolve_backend(name)[1] is not None
    except Exception:
        # matplotlib tells what is wrong with a name that nobody knows.
        return "ipympl" in name
