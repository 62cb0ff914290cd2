# SPDX-License-Identifier: Apache-2.0
"""application/vnd.vial.chart+json: what a matplotlib figure shows, as numbers (schema in docs/kernels.md).

One axes is a chart, several are a superchart. A chart of a kind we do not know is "unknown" and has no elements; nothing here
ever makes a figure fail. Box plots cannot be read back from their lines, so Axes.bxp is wrapped (watch_boxes) and remembers its input.
"""

import datetime
import re

from .data import value_of

MIME = "application/vnd.vial.chart+json"
MAX_POINTS = 10_000
MAX_ELEMENTS = 1_000
_UNIT = re.compile(r"[(\[]([^()\[\]]+)[)\]]\s*$")
_SCALES = ("linear", "log", "symlog", "logit", "function", "functionlog", "asinh")
_BOXES = "_vial_boxes"


def of_figure(figure):
    """The chart of a matplotlib Figure."""
    try:
        axes = [one for one in figure.axes if not _is_colorbar(one) and one.get_visible()]
        charts = [_of_axes(one) for one in _without_empty_twins(axes)]
        title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else ""
        if len(charts) == 1:
            charts[0]["title"] = charts[0]["title"] or title or None
            return charts[0]
        if charts:
            return {"type": "superchart", "title": title or None, "elements": charts}
    except Exception:
        pass
    return {"type": "unknown", "title": None, "elements": []}


def watch_boxes(axes_module):
    """Called once matplotlib.axes has been imported: box plots remember the statistics they were drawn from."""
    axes_class = axes_module.Axes
    original = axes_class.bxp
    if getattr(original, "_is_vial", False):
        return

    def bxp(self, bxpstats, *args, **kwargs):
        drawn = original(self, bxpstats, *args, **kwargs)
        vars(self).setdefault(_BOXES, []).extend(bxpstats)
        return drawn

    bxp._is_vial = True
    bxp.__doc__ = original.__doc__
    bxp.__wrapped__ = original
    axes_class.bxp = bxp


def _is_colorbar(axes):
    return getattr(axes, "_colorbar", None) is not None or axes.get_label() == "<colorbar>"


def _without_empty_twins(axes):
    """Axes that show nothing stay only when there is nothing else."""
    return [one for one in axes if one.has_data() or one.patches or one.texts] or axes[:1]


def _of_axes(axes):
    for kind, read in _READERS:
        elements = read(axes)
        if elements:
            chart = {"type": kind, "title": axes.get_title() or None, "elements": elements[:MAX_ELEMENTS]}
            if kind != "pie":
                chart.update(_labels(axes))
            if kind in ("line", "scatter"):
                chart.update(_ticks(axes.xaxis, "x"))
                chart.update(_ticks(axes.yaxis, "y"))
            return chart
    return {"type": "unknown", "title": axes.get_title() or None, "elements": [], **_labels(axes)}


def _labels(axes):
    x_label, y_label = axes.get_xlabel(), axes.get_ylabel()
    return {
        "x_label": x_label or None,
        "y_label": y_label or None,
        "x_unit": _unit(x_label),
        "y_unit": _unit(y_label),
    }


def _unit(label):
    found = _UNIT.search(label)
    return found.group(1).strip() if found else None


def _ticks(axis, prefix):
    low, high = sorted(axis.get_view_interval())
    # matplotlib places ticks a little beyond what is seen.
    seen = [
        (tick, label.get_text())
        for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels())
        if low <= tick <= high
    ]
    return {
        f"{prefix}_ticks": [_value(axis, tick) for tick, _ in seen],
        f"{prefix}_tick_labels": [text for _, text in seen],
        f"{prefix}_scale": _scale(axis),
    }


def _scale(axis):
    if _is_date(axis):
        return "datetime"
    if _categories(axis) is not None:
        return "categorical"
    scale = axis.get_scale()
    return scale if scale in _SCALES else "linear"


def _converter(axis):
    return axis.get_converter() if hasattr(axis, "get_converter") else getattr(axis, "converter", None)


def _is_date(axis):
    kinds = [kind.__name__ for kind in type(_converter(axis)).__mro__]
    return any("Date" in kind or "Period" in kind for kind in kinds)


def _categories(axis):
    """Position to label of an axis of texts, or None."""
    mapping = getattr(axis.units, "_mapping", None)
    return {position: text for text, position in mapping.items()} if mapping else None


def _value(axis, number):
    """A number on an axis as what it stands for: a time, a category, or itself."""
    if isinstance(number, str):
        return number
    if isinstance(number, (datetime.date, datetime.datetime)) or type(number).__name__ == "datetime64":
        return _time(number)
    if hasattr(number, "ordinal") and hasattr(number, "start_time"):
        return number.start_time.isoformat()
    categories = _categories(axis)
    if categories is not None:
        return categories.get(float(number), value_of(number))
    if _is_date(axis):
        kinds = [kind.__name__ for kind in type(_converter(axis)).__mro__]
        if any("Period" in kind for kind in kinds):
            import pandas

            frequency = getattr(axis, "freq", None)
            if frequency is not None:
                return pandas.Period(ordinal=int(number), freq=frequency).start_time.isoformat()
        from matplotlib import dates

        return dates.num2date(float(number)).replace(tzinfo=None).isoformat()
    return value_of(number)


def _time(moment):
    if type(moment).__name__ == "datetime64":
        return None if str(moment) == "NaT" else str(moment.astype("datetime64[us]").item().isoformat())
    return moment.isoformat()


def _name(artist):
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _points(axes, xs, ys):
    pairs = zip(_list(xs)[:MAX_POINTS], _list(ys)[:MAX_POINTS])
    return [[_value(axes.xaxis, x), _value(axes.yaxis, y)] for x, y in pairs]


def _list(values):
    if type(values).__name__ == "ndarray" and values.dtype.kind == "M":
        return list(values)
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _read_lines(axes):
    elements = []
    for number, line in enumerate(axes.lines):
        if line.get_transform() is not None and not line.get_visible():
            continue
        points = _points(axes, line.get_xdata(orig=True), line.get_ydata(orig=True))
        if points:
            elements.append({"label": _name(line) or f"Line {number}", "points": points})
    return elements


def _read_scatter(axes):
    elements = []
    for number, collection in enumerate(axes.collections):
        if type(collection).__name__ not in ("PathCollection", "RegularPolyCollection"):
            continue
        offsets = collection.get_offsets()
        points = _points(axes, offsets[:, 0], offsets[:, 1]) if len(offsets) else []
        if points:
            elements.append({"label": _name(collection) or f"Scatter {number}", "points": points})
    return elements


def _read_bars(axes):
    elements = []
    for container in axes.containers:
        if type(container).__name__ != "BarContainer":
            continue
        is_upright = getattr(container, "orientation", "vertical") != "horizontal"
        axis = axes.xaxis if is_upright else axes.yaxis
        names = _tick_names(axis)
        for bar in container.patches:
            if is_upright:
                middle, value = bar.get_x() + bar.get_width() / 2, bar.get_height()
            else:
                middle, value = bar.get_y() + bar.get_height() / 2, bar.get_width()
            elements.append(
                {"label": _bar_label(axis, names, float(middle)), "group": _name(container), "value": value_of(value)}
            )
    return elements


def _tick_names(axis):
    """The texts at an axis's ticks when somebody wrote them; none when matplotlib counted."""
    kinds = (type(axis.get_major_locator()).__name__, type(axis.get_major_formatter()).__name__)
    if _categories(axis) is None and not any(kind.startswith("Fixed") for kind in kinds):
        return {}
    return {float(tick): label.get_text() for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels())}


def _bar_label(axis, names, middle):
    near = min(names, key=lambda tick: abs(tick - middle), default=None)
    if near is not None and abs(near - middle) < 0.5 and names[near]:
        return names[near]
    value = _value(axis, middle)
    return value if isinstance(value, str) else f"{value:g}" if value is not None else ""


def _read_pie(axes):
    wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    return [
        {"label": _name(wedge), "angle": value_of(wedge.theta2 - wedge.theta1), "radius": value_of(wedge.r)}
        for wedge in wedges
    ]


def _read_boxes(axes):
    boxes = getattr(axes, _BOXES, ())
    upright, lying = _tick_names(axes.xaxis), _tick_names(axes.yaxis)
    names = list((upright if len(upright) >= len(boxes) else lying).values())
    return [_box(box, names[number] if number < len(names) else "") for number, box in enumerate(boxes)]


def _box(box, name):
    return {
        "label": str(box.get("label") or name),
        "min": value_of(box.get("whislo")),
        "first_quartile": value_of(box.get("q1")),
        "median": value_of(box.get("med")),
        "third_quartile": value_of(box.get("q3")),
        "max": value_of(box.get("whishi")),
        "outliers": [value_of(flier) for flier in _list(box.get("fliers", ()))],
    }


# The first that finds something tells the kind: bars often carry lines, a line chart often carries points.
_READERS = (
    ("pie", _read_pie),
    ("box_and_whisker", _read_boxes),
    ("bar", _read_bars),
    ("line", _read_lines),
    ("scatter", _read_scatter),
)
