# SPDX-License-Identifier: Apache-2.0
"""The series of a three-dimensional axes: points [x, y, z], surfaces as what they were drawn from."""

from . import remember
from .axes import MAX_POINTS, Legend, as_list
from .data import value_of


def of_axes(axes):
    legend = Legend(axes)
    found = [(kind, read(axes, legend)) for kind, read in _READERS]
    return [(kind, elements) for kind, elements in found if elements]


def _points(xs, ys, zs):
    return [[value_of(x), value_of(y), value_of(z)] for x, y, z in list(zip(_flat(xs), _flat(ys), _flat(zs)))[:MAX_POINTS]]


def _flat(values):
    import numpy

    # Masked points are no points.
    return numpy.ma.filled(numpy.ma.asarray(values, dtype=float), float("nan")).ravel().tolist()


def _read_surfaces(axes, legend):
    import numpy

    elements = []
    for name in ("plot_surface", "plot_wireframe", "plot_trisurf"):
        for artists, (arguments, given) in remember.notes_of(axes, name):
            xs, ys, zs = [given.get(key, arguments[place] if place < len(arguments) else None) for place, key in enumerate(("X", "Y", "Z"))]
            if zs is None:
                continue
            xs, ys, zs = numpy.broadcast_arrays(*(numpy.asarray(values) for values in (xs, ys, zs)))
            element = {"label": legend.name(artists[0]), "points": _points(xs, ys, zs)}
            if zs.ndim == 2:
                element["shape"] = list(zs.shape)
            elements.append(element)
    return elements


def _read_bars(axes, legend):
    import numpy

    elements = []
    for artists, (arguments, given) in remember.notes_of(axes, "bar3d"):
        names = ("x", "y", "z", "dx", "dy", "dz")
        values = [given.get(key, arguments[place] if place < len(arguments) else 0) for place, key in enumerate(names)]
        xs, ys, zs, _, _, heights = [_flat(one) for one in numpy.broadcast_arrays(*(numpy.atleast_1d(one) for one in values))]
        tops = [low + height for low, height in zip(zs, heights)]
        elements.append({"label": legend.name(artists[0]), "points": _points(xs, ys, tops)})
    return elements


def _read_lines(axes, legend):
    lines = [(line, line.get_data_3d()) for line in axes.lines if hasattr(line, "get_data_3d") and line.get_visible()]
    return [
        {"label": legend.name(line) or f"Line {number}", "points": _points(*data)} for number, (line, data) in enumerate(lines) if len(as_list(data[0]))
    ]


def _read_scatter(axes, legend):
    elements = []
    for number, collection in enumerate(axes.collections):
        if type(collection).__name__ != "Path3DCollection":
            continue
        xs, ys, zs = collection._offsets3d
        element = {"label": legend.name(collection) or f"Scatter {number}", "points": _points(xs, ys, zs)}
        if collection.get_array() is not None:
            element["values"] = [value_of(value) for value in as_list(collection.get_array())[:MAX_POINTS]]
        elements.append(element)
    return elements


_READERS = (("surface_3d", _read_surfaces), ("bar_3d", _read_bars), ("line_3d", _read_lines), ("scatter_3d", _read_scatter))
