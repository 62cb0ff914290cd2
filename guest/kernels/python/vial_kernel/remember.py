# SPDX-License-Identifier: Apache-2.0
"""What matplotlib draws and forgets: box plots, violins, histograms and surfaces cannot be read back from their lines, so the methods that draw them
are wrapped and note on the axes what they were given. Called once a module has been imported; no drawing ever fails because of it.
"""

import functools

from . import imports

_NOTES = "_vial_notes"


def install():
    imports.after("matplotlib.axes", _watch_axes)
    imports.after("mpl_toolkits.mplot3d.axes3d", _watch_axes_3d)
    imports.after("seaborn.categorical", _watch_violins_of_seaborn)
    imports.after("seaborn.distributions", _watch_histograms_of_seaborn)


def notes_of(axes, kind):
    """[(artists, what was noted)] of what is still on the axes."""
    notes = getattr(axes, _NOTES, {}).get(kind, ())
    return [(artists, note) for artists, note in notes if artists and artists[0].axes is axes]


def owned_by(axes):
    """The artists that belong to something noted, by identity: they are no series of their own."""
    return {id(artist) for kind in getattr(axes, _NOTES, {}) for artists, _ in notes_of(axes, kind) for artist in artists}


def _note(axes, kind, artists, note):
    vars(axes).setdefault(_NOTES, {}).setdefault(kind, []).append((artists, note))


def _wrap(owner, name, take):
    """`take(self, drawn, *args, **kwargs)` after each call of owner.name."""
    original = getattr(owner, name)
    if getattr(original, "_is_vial", False):
        return

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        drawn = original(self, *args, **kwargs)
        try:
            take(self, drawn, *args, **kwargs)
        except Exception:
            pass
        return drawn

    method._is_vial = True
    setattr(owner, name, method)


def _watch_axes(module):
    _wrap(module.Axes, "bxp", _take_boxes)
    _wrap(module.Axes, "violin", _take_violins)
    _wrap(module.Axes, "hist", _take_histogram)


def _all(drawn):
    """The artists of the dict that a method answers with."""
    artists = []
    for value in drawn.values():
        artists.extend(value if isinstance(value, (list, tuple)) else [value])
    return artists


def _take_boxes(axes, drawn, bxpstats, *args, **kwargs):
    for number, stats in enumerate(bxpstats):
        median = drawn["medians"][number] if number < len(drawn["medians"]) else None
        box = drawn["boxes"][number] if number < len(drawn["boxes"]) else median
        # The last has what belongs to none of them; it is enough that it is known as owned.
        artists = [box] + (_all(drawn) if number + 1 == len(bxpstats) else [])
        _note(axes, "boxes", artists, (stats, median))


def _take_violins(axes, drawn, vpstats, positions=None, *args, **kwargs):
    positions = list(positions) if positions is not None else list(range(1, len(vpstats) + 1))
    is_lying = kwargs.get("orientation") == "horizontal" or kwargs.get("vert") is False or (args and args[0] is False)
    for number, (stats, position) in enumerate(zip(vpstats, positions)):
        artists = [drawn["bodies"][number]] + (_all(drawn) if number + 1 == len(vpstats) else [])
        _note(axes, "violins", artists, {**stats, "position": position, "is_lying": bool(is_lying)})


def _take_histogram(axes, drawn, *args, **kwargs):
    counts, edges, patches = drawn
    # One set of data, or several: then lists of each.
    many = getattr(counts, "ndim", 1) == 2 or isinstance(counts, list)
    if many and kwargs.get("stacked"):
        # matplotlib answers with the tops of the bars; what was counted is what each adds.
        counts = [top - below for top, below in zip(counts, [0 * counts[0], *counts])]
    for values, drawing in zip(counts, patches) if many else ((counts, patches),):
        bars = list(drawing)
        if bars:
            _note(axes, "histograms", bars, (values, edges))


def _watch_axes_3d(module):
    for name in ("plot_surface", "plot_wireframe", "plot_trisurf", "bar3d"):
        _wrap(module.Axes3D, name, functools.partial(_take_3d, name))


def _take_3d(name, axes, drawn, *args, **kwargs):
    _note(axes, name, [drawn], ([*args], kwargs))


def _axes_of(plotter):
    return [plotter.ax] if plotter.ax is not None else list(plotter.facets.axes.flat)


def _watch_new(owner, name, take):
    """As _wrap, for a plotter of seaborn's: `take(axes, children)` with what was drawn on each of its axes."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        before = {id(child) for axes in _axes_of(self) for child in axes.get_children()}
        drawn = original(self, *args, **kwargs)
        for axes in _axes_of(self):
            take(axes, [child for child in axes.get_children() if id(child) not in before])
        return drawn

    setattr(owner, name, method)


def _watch_violins_of_seaborn(module):
    def take(axes, children):
        bodies = [child for child in children if type(child).__name__ == "FillBetweenPolyCollection"]
        for body in bodies:
            _note(axes, "violins", [body] + (children if body is bodies[-1] else []), None)

    _watch_new(module._CategoricalPlotter, "plot_violins", take)


def _watch_histograms_of_seaborn(module):
    def take(axes, children):
        new = {id(child) for child in children}
        for container in axes.containers:
            if container.patches and id(container.patches[0]) in new:
                _note(axes, "histograms", list(container.patches), None)

    _watch_new(module._DistributionPlotter, "plot_univariate_histogram", take)
