# SPDX-License-Identifier: Apache-2.0
"""The series of an axes, by kind: of_axes() answers [(kind, elements)], the main kind first. Schema in docs/kernels.md."""

from . import remember
from .axes import MAX_POINTS, Legend, as_list, colour_of, name_at, place_of, points_of, tick_names
from .data import value_of


def of_axes(axes):
    view = _View(axes)
    found = []
    for kind, read in _READERS:
        elements = read(view)
        if elements:
            found.append((kind, elements))
    return found


class _View:
    """An axes, and which of its artists have been told as part of something else."""

    def __init__(self, axes):
        self.axes = axes
        self.legend = Legend(axes)
        self.told = remember.owned_by(axes)
        self.errors = [one for one in axes.containers if type(one).__name__ == "ErrorbarContainer"]
        for container in self.errors:
            line, caps, bars = container.lines
            self.told.update(id(artist) for artist in (*caps, *bars))

    def untold(self, artists):
        return [artist for artist in artists if id(artist) not in self.told and artist.get_visible()]


def _read_pie(view):
    wedges = [patch for patch in view.axes.patches if type(patch).__name__ == "Wedge"]
    return [
        {"label": view.legend.name(wedge), "angle": value_of(wedge.theta2 - wedge.theta1), "radius": value_of(wedge.r)}
        for wedge in wedges
    ]


def _read_boxes(view):
    elements, seen = [], []
    for artists, (stats, median) in remember.notes_of(view.axes, "boxes"):
        axis, place = _across(view.axes, median)
        label = stats.get("label") or (name_at(axis, tick_names(axis), place) if place is not None else "")
        group = view.legend.name(artists[0])
        element = {
            "label": str(label),
            "min": value_of(stats.get("whislo")),
            "first_quartile": value_of(stats.get("q1")),
            "median": value_of(stats.get("med")),
            "third_quartile": value_of(stats.get("q3")),
            "max": value_of(stats.get("whishi")),
            "outliers": [value_of(flier) for flier in as_list(stats.get("fliers", ()))],
        }
        element = {**element, "group": group} if group and group != label else element
        # Drawn once more in the same place, to fill it with a colour, it is the same box.
        if (element, place) not in seen:
            seen.append((element, place))
            elements.append(element)
    return elements


def lies(axes, kind):
    """Whether an axes's bars or boxes lie: then it is y along which they stand for something."""
    if kind in ("bar", "histogram"):
        return any(getattr(container, "orientation", None) == "horizontal" for container in axes.containers)
    if kind == "box_and_whisker":
        return any(_across(axes, median)[0] is axes.yaxis for _, (_, median) in remember.notes_of(axes, "boxes"))
    return False


def _across(axes, median):
    """The axis along which boxes stand beside each other, and where the one of this median stands."""
    if median is None:
        return axes.xaxis, None
    xs, ys = as_list(median.get_xdata()), as_list(median.get_ydata())
    if len(set(ys)) == 1:
        return axes.xaxis, sum(xs) / len(xs)
    return axes.yaxis, sum(ys) / len(ys)


def _read_violins(view):
    return [_violin(view, artists[0], stats) for artists, stats in remember.notes_of(view.axes, "violins")]


def _violin(view, body, stats):
    axes = view.axes
    if stats is None:  # seaborn's are bands
        is_upright = body.t_direction == "y"
        values, left, right = _band(body)
        place = sum(left + right) / (2 * len(left))
        stats = {"coords": values, "vals": [abs(a - b) for a, b in zip(left, right)], "min": min(values), "max": max(values)}
    else:
        is_upright, place = not stats["is_lying"], float(stats["position"])
    axis = axes.xaxis if is_upright else axes.yaxis
    label, group = name_at(axis, tick_names(axis), place), view.legend.name(body)
    element = {
        "label": label,
        **{name: value_of(stats.get(name)) for name in ("min", "median", "mean", "max")},
        "points": [[value_of(value), value_of(width)] for value, width in zip(as_list(stats["coords"]), as_list(stats["vals"]))],
    }
    return {**element, "group": group} if group and group != label else element


def _band(collection):
    """Where a band of fill_between() is, and its two borders there: its outline goes along the first and back along the second."""
    places, first, second = [], [], []
    along = 0 if collection.t_direction == "x" else 1
    for path in collection.get_paths():
        corners = path.vertices.tolist()
        count = (len(corners) - 3) // 2
        there, back = corners[1 : count + 1], corners[count + 2 : 2 * count + 2][::-1]
        places += [corner[along] for corner in there]
        first += [corner[1 - along] for corner in there]
        second += [corner[1 - along] for corner in back]
    return places, first, second


def _read_histograms(view):
    elements = []
    for number, (patches, drawn) in enumerate(remember.notes_of(view.axes, "histograms")):
        if drawn is None:
            bars = [_sides(view.axes, patch) for patch in patches]
        else:
            counts, edges = as_list(drawn[0]), as_list(drawn[1])
            bars = list(zip(edges, edges[1:], counts))
        group = _name_of_bars(view, patches) or f"Group {number}"
        for low, high, value in bars:
            label = f"{low:g} – {high:g}"
            elements.append({"label": label, "group": group, "value": value_of(value), "from": value_of(low), "to": value_of(high)})
    return elements


def _name_of_bars(view, patches):
    """It is their container that has the label, or the first of them."""
    for container in view.axes.containers:
        if container.patches and container.patches[0] is patches[0]:
            return view.legend.name(container, colour_of(patches[0])) or view.legend.name(patches[0])
    return view.legend.name(patches[0])


def _sides(axes, bar):
    """From, to and height of a bar of a histogram; those that lie share their left side."""
    if axes.patches and all(abs(patch.get_x()) < 1e-12 for patch in axes.patches if hasattr(patch, "get_x")) and bar.get_height() != bar.get_width():
        lying = {round(patch.get_height(), 12) for patch in axes.patches if hasattr(patch, "get_height")}
        if len(lying) == 1:
            return bar.get_y(), bar.get_y() + bar.get_height(), bar.get_width()
    return bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height()


def _read_bars(view):
    elements = []
    containers = [one for one in view.axes.containers if type(one).__name__ == "BarContainer" and view.untold(one.patches)]
    for place, container in enumerate(containers):
        is_upright = getattr(container, "orientation", "vertical") != "horizontal"
        axis = view.axes.xaxis if is_upright else view.axes.yaxis
        names = tick_names(axis)
        group = view.legend.name(container, colour_of(container.patches[0])) or f"Group {place}"
        errors = _error_ends(container.errorbar, is_upright) if container.errorbar is not None else []
        for number, bar in enumerate(container.patches):
            if is_upright:
                middle, value = bar.get_x() + bar.get_width() / 2, bar.get_height()
            else:
                middle, value = bar.get_y() + bar.get_height() / 2, bar.get_width()
            element = {"label": name_at(axis, names, float(middle)), "group": group, "value": value_of(value)}
            if number < len(errors):
                element["error"] = errors[number]
            elif error := _error_line(view, float(middle), is_upright):
                element["error"] = error
            elements.append(element)
    return elements


def _error_line(view, middle, is_upright):
    """[low, high] of the line that seaborn draws along the middle of a bar, which is then told."""
    for line in view.untold(view.axes.lines):
        xs, ys = as_list(line.get_xdata()), as_list(line.get_ydata())
        across, along = (xs, ys) if is_upright else (ys, xs)
        if len(along) == 2 and all(isinstance(place, float) and abs(place - middle) < 1e-6 for place in across):
            view.told.add(id(line))
            ends = [value_of(end) for end in along]
            return ends if None not in ends else None
    return None


def _error_ends(container, is_upright):
    """[low, high] of each point of an error bar, across or along."""
    bars = container.lines[2]
    if not bars:
        return []
    # x errors come before y errors.
    which = bars[-1] if is_upright else bars[0]
    side = 1 if is_upright else 0
    return [[value_of(float(ends[0][side])), value_of(float(ends[-1][side]))] for ends in which.get_segments()]


def _read_heatmaps(view):
    elements = [_image(view, image) for image in view.untold(view.axes.images)]
    elements += [_mesh(view, mesh) for mesh in view.untold(view.axes.collections) if type(mesh).__name__ in ("QuadMesh", "PolyQuadMesh")]
    return [element for element in elements if element is not None]


def _image(view, image):
    values = image.get_array()
    if values is None or values.ndim != 2:
        return None  # a photograph
    left, right, bottom, top = image.get_extent()
    rows, columns = values.shape
    first, last = (top, bottom) if image.origin == "upper" else (bottom, top)
    return _heatmap(view, values, _middles(left, right, columns), _middles(first, last, rows))


def _mesh(view, mesh):
    corners = mesh.get_coordinates() if hasattr(mesh, "get_coordinates") else mesh._coordinates
    rows, columns = corners.shape[0] - 1, corners.shape[1] - 1
    values = mesh.get_array()
    if values is None or values.size != rows * columns:
        return None
    xs, ys = corners[0, :, 0].tolist(), corners[:, 0, 1].tolist()
    between = lambda edges: [(a + b) / 2 for a, b in zip(edges, edges[1:])]  # noqa: E731
    return _heatmap(view, values.reshape(rows, columns), between(xs), between(ys))


def _middles(start, end, count):
    step = (end - start) / count
    return [start + step * (number + 0.5) for number in range(count)]


def _heatmap(view, values, xs, ys):
    rows, columns = values.shape
    keep_columns = min(columns, MAX_POINTS)
    keep_rows = min(rows, max(1, MAX_POINTS // max(1, keep_columns)))
    part = values[:keep_rows, :keep_columns]
    # Masked cells are empty ones.
    cells = part.filled(float("nan")) if hasattr(part, "filled") and part.dtype.kind == "f" else part
    element = {
        "x": _places(view.axes.xaxis, xs[:keep_columns]),
        "y": _places(view.axes.yaxis, ys[:keep_rows]),
        "values": [[value_of(value) for value in row] for row in cells.tolist()],
    }
    if (keep_rows, keep_columns) != (rows, columns):
        element["shape"] = [rows, columns]
    return element


def _places(axis, places):
    """By their ticks' texts where every one has its own."""
    names = tick_names(axis)
    texts = [name_at(axis, names, place) for place in places] if names and len(names) >= len(places) else []
    return texts if texts and all(texts) and len(set(texts)) == len(texts) else [place_of(axis, place) for place in places]


def _read_errorbars(view):
    elements = []
    for number, container in enumerate(view.errors):
        line = container.lines[0]
        if line is None:
            continue  # of bars, or of nothing
        view.told.add(id(line))
        element = {
            "label": view.legend.name(container, colour_of(line)) or f"Line {number}",
            "points": points_of(view.axes, line.get_xdata(orig=True), line.get_ydata(orig=True)),
        }
        for name, has, is_upright in (("x_errors", container.has_xerr, False), ("y_errors", container.has_yerr, True)):
            if has:
                element[name] = _error_ends(container, is_upright)[:MAX_POINTS]
        elements.append(element)
    return elements


def _is_across(view, line):
    """axhline() and axvline(): one of its coordinates is a part of the axes, not a place on it."""
    transform = line.get_transform()
    return transform in (view.axes.get_xaxis_transform(which="grid"), view.axes.get_yaxis_transform(which="grid"))


def _read_lines(view):
    elements = []
    for number, line in enumerate(view.axes.lines):
        if id(line) in view.told or not line.get_visible() or _is_across(view, line):
            continue
        points = points_of(view.axes, line.get_xdata(orig=True), line.get_ydata(orig=True))
        # seaborn draws empty ones for its legend, and where there is nothing to know.
        if any(None not in point for point in points):
            elements.append({"label": view.legend.name(line) or f"Line {number}", "points": points})
    return elements


def _read_scatter(view):
    elements = []
    for number, collection in enumerate(view.axes.collections):
        if type(collection).__name__ not in ("PathCollection", "RegularPolyCollection") or not view.untold([collection]):
            continue
        offsets = collection.get_offsets()
        points = points_of(view.axes, offsets[:, 0], offsets[:, 1]) if len(offsets) else []
        if not points:
            continue
        colours = collection.get_facecolor()
        groups = view.legend.split(colours.tolist()[:MAX_POINTS]) if len(colours) == len(offsets) and collection.get_array() is None else None
        if groups:
            elements += [{"label": name, "points": [points[place] for place in places]} for name, places in groups.items()]
            continue
        element = {"label": view.legend.name(collection) or f"Scatter {number}", "points": points}
        if collection.get_array() is not None:
            element["values"] = [value_of(value) for value in as_list(collection.get_array())[:MAX_POINTS]]
        elements.append(element)
    return elements


def _read_areas(view):
    elements = []
    for number, collection in enumerate(view.untold(view.axes.collections)):
        if type(collection).__name__ != "FillBetweenPolyCollection":
            continue
        along, across = (view.axes.xaxis, view.axes.yaxis) if collection.t_direction == "x" else (view.axes.yaxis, view.axes.xaxis)
        points = [
            [place_of(along, place), *sorted((value_of(a), value_of(b)), key=_order)]
            for place, a, b in list(zip(*_band(collection)))[:MAX_POINTS]
        ]
        if points:
            elements.append({"label": view.legend.name(collection) or f"Area {number}", "points": points})
    return elements


def _order(value):
    return value if isinstance(value, (int, float)) else float("inf")


def _read_references(view):
    elements = []
    for line in view.untold(view.axes.lines):
        if not _is_across(view, line):
            continue
        is_level = line.get_transform() == view.axes.get_yaxis_transform(which="grid")
        axis, place = (view.axes.yaxis, line.get_ydata()[0]) if is_level else (view.axes.xaxis, line.get_xdata()[0])
        elements.append({"label": view.legend.name(line), "axis": "y" if is_level else "x", "value": place_of(axis, place)})
    return elements


# In the order of what a chart is called after: bars often carry lines, a line chart often carries points and bands.
_READERS = (
    ("pie", _read_pie),
    ("box_and_whisker", _read_boxes),
    ("violin", _read_violins),
    ("histogram", _read_histograms),
    ("bar", _read_bars),
    ("heatmap", _read_heatmaps),
    ("errorbar", _read_errorbars),
    ("line", _read_lines),
    ("scatter", _read_scatter),
    ("area", _read_areas),
    ("reference", _read_references),
)
