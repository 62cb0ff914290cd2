# SPDX-License-Identifier: Apache-2.0
"""ipywidgets and tqdm.notebook where no page answers: widgets are their text, progress bars are drawn on stderr.

A widget works as an object (its value, what observes it; interact() calls its function once), but it has no view: the model that a view's
identifier names lives nowhere. Nothing happens before one of them is imported.
"""

import functools

from . import imports

_VIEW = "application/vnd.jupyter.widget-view+json"
_entered = 0


def install():
    imports.after("ipywidgets.widgets.widget", _show_as_text)
    imports.after("ipywidgets.widgets.widget_output", _pass_output_on)
    imports.after("tqdm.notebook", _draw_as_text)


def is_in_output():
    """Whether code runs within an Output widget. Its output is the cell's, but it may not clear what others have shown there."""
    return _entered > 0


def _show_as_text(module):
    original = module.Widget._repr_mimebundle_

    @functools.wraps(original)
    def _repr_mimebundle_(self, **kwargs):
        bundle = original(self, **kwargs)
        if isinstance(bundle, dict) and "text/plain" in bundle:
            bundle.pop(_VIEW, None)
        return bundle

    module.Widget._repr_mimebundle_ = _repr_mimebundle_


def _pass_output_on(module):
    enter, leave = module.Output.__enter__, module.Output.__exit__

    @functools.wraps(enter)
    def __enter__(self):
        global _entered
        _entered += 1
        return enter(self)

    @functools.wraps(leave)
    def __exit__(self, *error):
        global _entered
        _entered -= 1
        return leave(self, *error)

    module.Output.__enter__, module.Output.__exit__ = __enter__, __exit__


def _draw_as_text(module):
    from tqdm.std import tqdm as text

    class tqdm_notebook(text):
        """The bar of text, called with what only a widget's bar takes."""

        def __init__(self, *args, display=True, **kwargs):
            if isinstance(kwargs.get("ncols"), str):
                del kwargs["ncols"]
            super().__init__(*args, **kwargs)
            self.displayed = display

    module.tqdm = module.tqdm_notebook = tqdm_notebook
    module.trange = module.tnrange = lambda *args, **kwargs: tqdm_notebook(range(*args), **kwargs)
