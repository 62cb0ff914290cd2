# SPDX-License-Identifier: Apache-2.0
"""An axes as a reader sees it: what its axis stand for (numbers, times, categories), the names that its ticks and its legend give."""

import datetime
import re

from .data import value_of

MAX_POINTS = 10_000
_UNIT = re.compile(r"[(\[]([^()\[\]]+)[)\]]\s*$")
_SCALES = ("linear", "log", "symlog", "logit", "function", "functionlog", "asinh")
# How far apart colours may be that are meant to be the same.
_SAME_COLOUR = 0.02


def labels_of(axes):
    x_label, y_label = axes.get_xlabel(), axes.get_ylabel()
    return {
        "x_label": x_label or None,
        "y_label": y_label or None,
        "x_unit": _unit(x_label),
        "y_unit": _unit(y_label),
        **_labels_of_depth(axes),
    }


def _labels_of_depth(axes):
    if axes.name != "3d":
        return {}
    return {"z_label": axes.get_zlabel() or None, "z_unit": _unit(axes.get_zlabel())}


def _unit(label):
    found = _UNIT.search(label)
    return found.group(1).strip() if found else None


def ticks_of(axis, prefix):
    low, high = sorted(axis.get_view_interval())
    # matplotlib places ticks a little beyond what is seen.
    seen = [
        (tick, label.get_text())
        for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels())
        if low <= tick <= high
    ]
    return {
        f"{prefix}_ticks": [place_of(axis, tick) for tick, _ in seen],
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


def place_of(axis, number):
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


def points_of(axes, xs, ys):
    pairs = zip(as_list(xs)[:MAX_POINTS], as_list(ys)[:MAX_POINTS])
    return [[place_of(axes.xaxis, x), place_of(axes.yaxis, y)] for x, y in pairs]


def as_list(values):
    if type(values).__name__ == "ndarray" and values.dtype.kind == "M":
        return list(values)
    return values.tolist() if hasattr(values, "tolist") else list(values)


def tick_names(axis):
    """The texts at an axis's ticks when somebody wrote them; none when matplotlib counted."""
    kinds = (type(axis.get_major_locator()).__name__, type(axis.get_major_formatter()).__name__)
    if _categories(axis) is None and not any(kind.startswith("Fixed") for kind in kinds):
        return {}
    return {float(tick): label.get_text() for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels())}


def name_at(axis, names, place):
    """What stands at a place of an axis: the text of the nearest tick of `names`, or the number."""
    near = min(names, key=lambda tick: abs(tick - place), default=None)
    if near is not None and abs(near - place) < 0.5 and names[near]:
        return names[near]
    value = place_of(axis, place)
    return value if isinstance(value, str) else f"{value:g}" if value is not None else ""


class Legend:
    """The names of an axes's series: their own labels, or those of the legend's entries of their colour (seaborn's `hue`)."""

    def __init__(self, axes):
        legends = [axes.get_legend()] if axes.get_legend() is not None else list(axes.figure.legends)
        self._entries = []
        for legend in legends:
            for handle, text in zip(legend.legend_handles, legend.get_texts()):
                colour = colour_of(handle)
                if colour is not None and text.get_text():
                    self._entries.append((colour, text.get_text()))

    def name(self, artist, colour=None):
        # A step of a histogram has the label None, and shows it as text.
        label = str(artist.get_label())
        if label and label != "None" and not label.startswith("_"):
            return label
        return self.name_of_colour(colour if colour is not None else colour_of(artist))

    def name_of_colour(self, colour):
        """Empty when there is none, or when several entries have it."""
        if colour is None:
            return ""
        texts = {text for known, text in self._entries if max(abs(a - b) for a, b in zip(known, colour)) < _SAME_COLOUR}
        return texts.pop() if len(texts) == 1 else ""

    def split(self, colours):
        """Positions of points by name, when every point has a colour that the legend names; else None."""
        if not self._entries or len(colours) < 2:
            return None
        groups, known = {}, {}
        for position, colour in enumerate(colours):
            key = tuple(colour[:3])
            if key not in known:
                known[key] = self.name_of_colour(key)
            if not known[key]:
                return None
            groups.setdefault(known[key], []).append(position)
        return groups


def colour_of(artist):
    """Red, green and blue of what an artist is mostly drawn with, or None."""
    from matplotlib.colors import to_rgb

    try:
        if hasattr(artist, "get_markerfacecolor"):
            has_line = artist.get_linestyle() not in ("None", "none", "", " ")
            return to_rgb(artist.get_color() if has_line else artist.get_markerfacecolor())
        colour = artist.get_facecolor()
        if not hasattr(artist, "get_offsets") and not hasattr(artist, "get_paths"):
            return to_rgb(colour)
        # A collection has a list of them.
        return to_rgb(colour[0]) if len(colour) else None
    except (AttributeError, ValueError, TypeError):
        return None
