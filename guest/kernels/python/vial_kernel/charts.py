# SPDX-License-Identifier: Apache-2.0
"""application/vnd.vial.chart+json: what a matplotlib figure shows, as numbers (schema in docs/kernels.md).

One axes is a chart, several are a superchart. What else an axes shows besides its main kind (a line over bars, a band around a line) are its overlays.
A chart of a kind we do not know is "unknown" and has no elements; nothing here ever makes a figure fail. The kinds are read by series.py and
series3d.py, on axes as axes.py sees them.
"""

from . import series, series3d
from .axes import labels_of, ticks_of

MIME = "application/vnd.vial.chart+json"
MAX_ELEMENTS = 1_000
# Kinds whose elements are places on both axes.
_WITH_TICKS = ("line", "scatter", "errorbar", "area", "heatmap")


def of_figure(figure):
    """The chart of a matplotlib Figure; None when nothing has been drawn."""
    try:
        if not any(one.has_data() for one in figure.axes):
            return None
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


def _is_colorbar(axes):
    return getattr(axes, "_colorbar", None) is not None or axes.get_label() == "<colorbar>"


def _without_empty_twins(axes):
    """Axes that show nothing stay only when there is nothing else."""
    return [one for one in axes if one.has_data() or one.patches or one.texts] or axes[:1]


def _of_axes(axes):
    found = series3d.of_axes(axes) if axes.name == "3d" else series.of_axes(axes)
    title = axes.get_title() or None
    if not found:
        return {"type": "unknown", "title": title, "elements": [], **labels_of(axes)}
    kind, elements = found[0]
    chart = {"type": kind, "title": title, "elements": elements[:MAX_ELEMENTS]}
    if series.lies(axes, kind):
        chart["orientation"] = "horizontal"
    if kind != "pie":
        chart.update(labels_of(axes))
    if kind in _WITH_TICKS:
        chart.update(ticks_of(axes.xaxis, "x"))
        chart.update(ticks_of(axes.yaxis, "y"))
    if len(found) > 1:
        chart["overlays"] = [{"type": kind, "elements": elements[:MAX_ELEMENTS]} for kind, elements in found[1:]]
    return chart
