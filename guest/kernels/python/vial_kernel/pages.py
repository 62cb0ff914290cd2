# SPDX-License-Identifier: Apache-2.0
"""Figures that are pages: plotly's, bokeh's and altair's, as a bundle of their page and what it is made of; with a still picture when the run asks
for images. Their show() publishes the same. The scripts are fetched by whoever shows the page: megabytes of them in every answer would help nobody.
"""

import sys

from . import imports, stills

_PICTURES = {"png": "image/png", "svg": "image/svg+xml", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "pdf": "application/pdf"}
_wants_images = None


def install(shell, wants_images):
    """`wants_images()` tells whether the run does. Nothing happens before one of the libraries is imported."""
    global _wants_images
    _wants_images = wants_images
    bundles = shell.display_formatter.mimebundle_formatter
    bundles.for_type_by_name("plotly.graph_objs._figure", "Figure", _bundle_of_plotly)
    bundles.for_type_by_name("plotly.graph_objs._figurewidget", "FigureWidget", _bundle_of_plotly)
    imports.after("plotly.io", _show_plotly)
    imports.after("bokeh.io.showing", _show_bokeh)
    imports.after("bokeh.io.output", _need_no_preparation)
    imports.after("altair.vegalite.v5.api", lambda module: _show_altair(module, bundles))


def _display(bundle):
    from IPython.display import display

    display(bundle, raw=True)


def _with_picture(bundle, draw, *what):
    """The bundle, with the picture that `draw` makes if the run wants one; why there is none is no reason to show nothing."""
    if _wants_images():
        try:
            bundle["image/png"] = draw(*what)
        except Exception as problem:
            print(f"no picture of this figure: {type(problem).__name__}: {problem}", file=sys.stderr)
    return bundle


# plotly


def _bundle_of_plotly(figure, include=None, exclude=None):
    page = figure.to_html(full_html=False, include_plotlyjs="cdn")
    return _with_picture({"application/vnd.plotly.v1+json": figure.to_plotly_json(), "text/html": page}, stills.of_plotly, figure)


def _show_plotly(module):
    from IPython.display import display

    def show(fig, renderer=None, validate=True, width=None, height=None, scale=None, **kwargs):
        from plotly.graph_objects import Figure

        figure = fig if hasattr(fig, "to_image") else Figure(fig, skip_invalid=not validate)
        kinds = [kind for kind in (renderer or module.renderers.default or "").split("+") if kind in _PICTURES]
        if kinds:
            _display({_PICTURES[kind]: _picture_of_plotly(figure, kind, width, height, scale) for kind in kinds})
        else:
            display(figure)

    module.show = show


def _picture_of_plotly(figure, kind, width, height, scale):
    picture = figure.to_image(format=kind, width=width, height=height, scale=scale)
    return picture.decode("utf-8") if kind == "svg" else picture


# bokeh


def _bundle_of_bokeh(model):
    from bokeh.embed import file_html
    from bokeh.embed.util import OutputDocumentFor
    from bokeh.resources import CDN

    # In a document for the moment: a figure that stays in one cannot be shown as part of another, side by side with a second.
    with OutputDocumentFor([model], always_new=True):
        page = file_html(model, CDN, title=getattr(getattr(model, "title", None), "text", None) or "bokeh")
        return _with_picture({"text/html": page, "text/plain": f"{type(model).__name__}(id={model.id!r}, ...)"}, stills.of_bokeh, model)


def _show_bokeh(module):
    original = module.show

    def show(obj, browser=None, new="tab", notebook_handle=False, notebook_url=None, **kwargs):
        """Display a figure, a layout of figures or a list of them: no output_notebook() is needed. After output_file() it is saved there as well."""
        from bokeh.io.saving import save
        from bokeh.io.state import curstate
        from bokeh.model import Model

        if callable(obj) and not isinstance(obj, Model):
            return original(obj, browser, new, notebook_handle, notebook_url, **kwargs)  # an application, which wants a server
        if curstate().file is not None:
            save(obj)
        for model in obj if isinstance(obj, (list, tuple)) else [obj]:
            _display(_bundle_of_bokeh(model))

    module.show = show


def _need_no_preparation(module):
    def output_notebook(*args, **kwargs):
        """Nothing to do: each figure brings what it needs."""

    module.output_notebook = output_notebook


# altair


def _bundle_of_altair(chart, include=None, exclude=None):
    spec = chart.to_dict()
    version = _version_of(spec)
    bundle = {
        f"application/vnd.vegalite.{version.split('.')[0]}+json": spec,
        "text/html": chart.to_html(fullhtml=False, requirejs=False),
        "text/plain": repr(type(chart).__name__),
    }
    return _with_picture(bundle, stills.of_altair, spec, ".".join(version.split(".")[:2]))


def _version_of(spec):
    parts = str(spec.get("$schema", "")).removesuffix(".json").split("/")
    return next((part for part in parts if part.startswith("v") and part[1:2].isdigit()), "v5")


def _show_altair(module, bundles):
    from IPython.display import display

    bundles.for_type(module.TopLevelMixin, _bundle_of_altair)

    def show(self, *args, **kwargs):
        """Display the chart."""
        display(self)

    module.TopLevelMixin.show = show
