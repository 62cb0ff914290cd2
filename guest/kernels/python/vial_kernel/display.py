# SPDX-License-Identifier: Apache-2.0
"""Rich results: objects become MIME bundles, bundles become `result` messages.

Text stays text, bytes become base64, JSON types stay JSON. Limits: text/plain is cut at the run's max_text_bytes, a bundle larger than
MAX_BUNDLE_BYTES loses its largest representations and says so in text/plain.
"""

import base64
import sys

from . import lean  # noqa: F401  first: it decides how much of IPython is loaded
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import BaseFormatter, IPythonDisplayFormatter, catch_format_error
from IPython.lib import pretty
from traitlets import ObjectName, Unicode

from . import channel, charts, data, imports, streams

MAX_BUNDLE_BYTES = 16 * 1024 * 1024
MAX_TEXT_BYTES = 1024 * 1024
# Their own _ipython_display_ would bypass the bundle: they have a formatter of ours instead.
_BUNDLED_PACKAGES = ("plotly.",)


# They have no _repr_*_ methods. Not their subclasses, which may.
_TEXT_TYPES = frozenset((int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, range))
# What IPython's pretty printer shows by their repr(), unless it was told otherwise.
_REPR_TYPES = frozenset((int, str))


class Run:
    """The run that results belong to; id None between runs."""

    id = None
    max_text_bytes = MAX_TEXT_BYTES
    is_truncated = False
    main_result = None


run = Run()


def publish(bundle, is_main_result=False, transient=None, is_update=False, is_followed=False):
    """Sends one bundle as it comes from IPython."""
    if run.id is None:
        return
    message = {"type": "result", "id": run.id, "data": _encode(bundle), "is_main_result": is_main_result}
    if transient and transient.get("display_id"):
        message["display_id"] = channel.plain_text(str(transient["display_id"]))
        message["is_update"] = bool(is_update)
    streams.send(message, is_followed)


def flush_main_result(is_followed):
    """The value of the last expression comes last, after the figures that the cell left open."""
    bundle, run.main_result = run.main_result, None
    if bundle is not None:
        publish(bundle, is_main_result=True, is_followed=is_followed)


def _encode(bundle):
    encoded = {str(mime): _encode_value(str(mime), value) for mime, value in bundle.items()}
    sizes = {mime: _size(value) for mime, value in encoded.items()}
    left_out = []
    while sum(sizes.values()) > MAX_BUNDLE_BYTES:
        mime = max(sizes, key=sizes.get)
        left_out.append(f"{mime} ({sizes.pop(mime)} bytes)")
        del encoded[mime]
    if left_out:
        run.is_truncated = True
        note = f"[left out, larger than {MAX_BUNDLE_BYTES} bytes: {', '.join(left_out)}]"
        encoded["text/plain"] = f"{encoded['text/plain']}\n{note}" if "text/plain" in encoded else note
    return encoded


def _encode_value(mime, value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, str):
        return _cut(channel.plain_text(value)) if mime == "text/plain" else channel.plain_text(value)
    return channel.plain(value)


def _cut(text):
    limit = run.max_text_bytes
    if len(text) * 4 <= limit:
        return text
    encoded = text.encode("utf-8")
    if len(encoded) <= limit:
        return text
    run.is_truncated = True
    return encoded[:limit].decode("utf-8", "ignore") + f"\n[cut: {len(encoded)} bytes in all]"


def _size(value):
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return 2 + sum(len(key) + 4 + _size(item) for key, item in value.items())
    if isinstance(value, list):
        return 2 + sum(1 + _size(item) for item in value)
    return 8


class Publisher(DisplayPublisher):
    """display(...)"""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        publish(data, transient=transient, is_update=update)

    def clear_output(self, wait=False):
        pass


class Hook(DisplayHook):
    """The value of the last expression."""

    exec_result = None  # no trait, as in shell.py

    def compute_format_data(self, result):
        """What IPython does, without asking eleven formatters about a number: that is half of the time that `1+1` takes."""
        formatter, kind = self.shell.display_formatter, type(result)
        if kind not in _TEXT_TYPES or not _is_only_text(formatter, kind, id(result)):
            return super().compute_format_data(result)
        text = formatter.formatters["text/plain"]
        is_repr = kind in _REPR_TYPES and _printers(text, "type_printers").get(kind) is pretty._repr_pprint
        return {"text/plain": repr(result) if is_repr else text(result)}, {}

    def quiet(self):
        """Whether a semicolon ends the cell: only one that has any is taken apart to see."""
        parsed = self.shell.history_manager.input_hist_parsed
        return bool(parsed) and ";" in parsed[-1] and super().quiet()

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        if run.main_result is not None:
            publish(run.main_result)
        run.main_result = format_dict

    def finish_displayhook(self):
        self._is_active = False

    def __call__(self, result=None):
        super().__call__(result)
        _close_if_figure(result)


def _printers(formatter, kind):
    """One of a formatter's tables, without asking its trait for it: that takes longer than all the rest, and there are forty."""
    values = formatter._trait_values
    return values[kind] if kind in values else getattr(formatter, kind)


def _is_only_text(formatter, kind, identity):
    """Whether nobody has registered another format for it (sympy's init_printing() does so for numbers and lists)."""
    formatters = [one for mime, one in formatter.formatters.items() if mime != "text/plain"]
    formatters += (formatter.ipython_display_formatter, formatter.mimebundle_formatter)
    name = (kind.__module__, kind.__qualname__)
    for one in formatters:
        printers = _printers(one, "type_printers")
        if kind in printers or object in printers or identity in _printers(one, "singleton_printers") or name in _printers(one, "deferred_printers"):
            return False
    return True


def _close_if_figure(value):
    """A figure that was the cell's value has been shown; it must not be shown again when the cell ends."""
    figure_module = sys.modules.get("matplotlib.figure")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if figure_module and pyplot and isinstance(value, figure_module.Figure):
        pyplot.close(value)


class _JsonFormatter(BaseFormatter):
    """A format whose values are JSON objects."""

    _return_type = dict
    print_method = ObjectName("_vial_no_method_")

    def pop(self, typ, default=None):
        """matplotlib's inline support takes Figure out of every formatter before it puts in its own; it has none for this one."""
        return default


class _DataFormatter(_JsonFormatter):
    format_type = Unicode(data.MIME)


class _ChartFormatter(_JsonFormatter):
    format_type = Unicode(charts.MIME)


class _SelfDisplayFormatter(IPythonDisplayFormatter):
    @catch_format_error
    def __call__(self, obj):
        if type(obj).__module__.startswith(_BUNDLED_PACKAGES):
            return False
        return super().__call__(obj)


def install(shell):
    """Adds our formats to the shell, for types that may never be imported."""
    formatter = shell.display_formatter
    formatter.ipython_display_formatter = _SelfDisplayFormatter(parent=formatter)
    tables = _DataFormatter(parent=formatter)
    figures = _ChartFormatter(parent=formatter)
    formatter.formatters[data.MIME] = tables
    formatter.formatters[charts.MIME] = figures
    formatter.active_types = formatter.format_types
    tables.for_type_by_name("pandas.core.frame", "DataFrame", data.of_frame)
    tables.for_type_by_name("pandas.core.series", "Series", data.of_series)
    tables.for_type_by_name("polars.dataframe.frame", "DataFrame", data.of_polars)
    figures.for_type_by_name("matplotlib.figure", "Figure", charts.of_figure)
    formatter.formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", _png_of_figure)
    bundles = formatter.mimebundle_formatter
    bundles.for_type_by_name("plotly.graph_objs._figure", "Figure", _bundle_of_plotly)
    bundles.for_type_by_name("plotly.graph_objs._figurewidget", "FigureWidget", _bundle_of_plotly)
    imports.after("matplotlib.axes", charts.watch_boxes)
    imports.after("altair.vegalite.v5.api", lambda module: bundles.for_type(module.TopLevelMixin, _bundle_of_altair))
    imports.after("plotly.io", _show_plotly)


def _png_of_figure(figure):
    """Also for figures that were made without pyplot."""
    from IPython.core.pylabtools import print_figure

    return print_figure(figure, fmt="png", base64=True)


def _bundle_of_plotly(figure, include=None, exclude=None):
    # The script is fetched by whoever shows the page: 4 MB of it in every answer would help nobody.
    page = figure.to_html(full_html=False, include_plotlyjs="cdn")
    return {"application/vnd.plotly.v1+json": figure.to_plotly_json(), "text/html": page}


def _show_plotly(module):
    """fig.show() publishes the same bundle."""
    from IPython.display import display

    module.show = lambda figure, *args, **kwargs: display(figure)


def _bundle_of_altair(chart, include=None, exclude=None):
    spec = chart.to_dict()
    schema = str(spec.get("$schema", ""))
    version = next((part for part in schema.replace(".json", "").split("/") if part.startswith("v") and part[1:2].isdigit()), "v5")
    mime = f"application/vnd.vegalite.{version.split('.')[0]}+json"
    return {mime: spec, "text/html": chart.to_html(fullhtml=False, requirejs=False), "text/plain": repr(type(chart).__name__)}
