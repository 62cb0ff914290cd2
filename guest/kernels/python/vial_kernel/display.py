# SPDX-License-Identifier: Apache-2.0
"""Rich results: objects become MIME bundles, bundles become `result` messages.

Text stays text, bytes become base64, JSON types stay JSON. Limits: text/plain is cut at the run's max_text_bytes, a bundle larger than
MAX_BUNDLE_BYTES loses its largest representations and says so in text/plain.
"""

import base64
import builtins
import sys
import warnings

from . import lean  # noqa: F401  first: it decides how much of IPython is loaded
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import BaseFormatter, IPythonDisplayFormatter, catch_format_error
from IPython.lib import pretty
from traitlets import ObjectName, Unicode

from . import channel, charts, data, figures, imports, pages, remember, streams, widgets

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
    wants_images = False
    failed_formats = None  # a list while an object is being formatted


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
        if run.id is not None and not widgets.is_in_output():
            streams.send({"type": "clear", "id": run.id, "wait": bool(wait)})


class Hook(DisplayHook):
    """The value of the last expression."""

    exec_result = None  # no trait, as in shell.py

    def compute_format_data(self, result):
        """What IPython does, without asking eleven formatters about a number: that is half of the time that `1+1` takes."""
        formatter, kind = self.shell.display_formatter, type(result)
        if kind not in _TEXT_TYPES or _registered.has(formatter, kind, id(result)):
            return super().compute_format_data(result)
        text = formatter.formatters["text/plain"]
        if kind in _REPR_TYPES and text.type_printers.get(kind) is pretty._repr_pprint:
            return {"text/plain": repr(result)}, {}
        return _formatted(self.shell, lambda: ({"text/plain": shown} if (shown := text(result)) is not None else {}, {}))

    def quiet(self):
        """Whether a semicolon ends the cell: only one that has any is taken apart to see."""
        parsed = self.shell.history_manager.input_hist_parsed
        return bool(parsed) and ";" in parsed[-1] and super().quiet()

    def write_output_prompt(self):
        pass

    def update_user_ns(self, result):
        """Out and _ to ___, which are the user's once he has set them (or gettext the builtin of that name)."""
        shell = self.shell
        namespace, hidden, count = shell.user_ns, shell.user_ns_hidden, shell.execution_count
        out = namespace["_oh"]
        if result is out:
            return
        if len(out) >= self.cache_size:
            self.cull_cache()
        is_ours = (
            namespace.get("_", self._) is self._
            and namespace.get("__", self.__) is self.__
            and namespace.get("___", self.___) is self.___
            and "_" not in vars(builtins)
        )
        self._, self.__, self.___ = result, self._, self.__
        variables = {f"_{count}": result}
        if is_ours:
            variables.update(_=self._, __=self.__, ___=self.___)
        namespace.update(variables)
        hidden.update(variables)
        out[count] = result

    def cull_cache(self):
        """The oldest results go, without IPython's warning: nobody has asked for them for a thousand cells."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            super().cull_cache()

    def write_format_data(self, format_dict, md_dict=None):
        if run.main_result is not None:
            publish(run.main_result)
        run.main_result = format_dict

    def finish_displayhook(self):
        self._is_active = False

    def __call__(self, result=None):
        super().__call__(result)
        figures.close_if_figure(result)


class _Registered:
    """The tables in which somebody may have registered another format for a type (sympy's init_printing() does so for numbers and lists)."""

    def __init__(self):
        self._formatters = []
        self._tables = []

    def has(self, formatter, kind, identity):
        """Whether there is one beside plain text."""
        formatters = [*formatter.formatters.values(), formatter.ipython_display_formatter, formatter.mimebundle_formatter]
        if formatters != self._formatters:
            self._formatters = formatters
            self._read()
        name = (kind.__module__, kind.__qualname__)
        for types, singletons, deferred in self._tables:
            if kind in types or object in types or identity in singletons or name in deferred:
                return True
        return False

    def _read(self, change=None):
        # Traits, which take longer than all the rest; so they tell us when they change.
        others = [one for one in self._formatters if one.format_type != "text/plain"]
        self._tables = [(one.type_printers, one.singleton_printers, one.deferred_printers) for one in others]
        for one in others:
            one.observe(self._read, ("type_printers", "singleton_printers", "deferred_printers"))


_registered = _Registered()


def _formatted(shell, work):
    """What `work` makes of an object. A representation that fails is left out and told on stderr; if there is no other, it is the cell's error."""
    if run.failed_formats is not None:
        return work()
    failed = run.failed_formats = []
    try:
        bundle, metadata = work()
    finally:
        run.failed_formats = None
    for etype, value, text in failed:
        if bundle:
            print(text, file=sys.stderr)
        else:
            shell._showtraceback(etype, value, text)
    return bundle, metadata


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
    make = formatter.format
    formatter.format = lambda obj, include=None, exclude=None: _formatted(shell, lambda: make(obj, include, exclude))
    formatter.ipython_display_formatter = _SelfDisplayFormatter(parent=formatter)
    tables = _DataFormatter(parent=formatter)
    drawings = _ChartFormatter(parent=formatter)
    formatter.formatters[data.MIME] = tables
    formatter.formatters[charts.MIME] = drawings
    formatter.active_types = formatter.format_types
    tables.for_type_by_name("pandas.core.frame", "DataFrame", data.of_frame)
    tables.for_type_by_name("pandas.core.series", "Series", data.of_series)
    tables.for_type_by_name("polars.dataframe.frame", "DataFrame", data.of_polars)
    tables.for_type_by_name("polars.series.series", "Series", data.of_polars_series)
    drawings.for_type_by_name("matplotlib.figure", "Figure", charts.of_figure)
    figures.install(shell)
    widgets.install()
    remember.install()
    # Image.show() tries programs that want a screen first.
    imports.after("PIL.ImageShow", lambda module: module.register(module.IPythonViewer(), 0))
    pages.install(shell, lambda: run.wants_images)
