# SPDX-License-Identifier: Apache-2.0
"""Charts as data: every series of an axes, by its name."""
from case import Case, chart

MPL = ("matplotlib",)
SNS = ("seaborn",)
FRAME = "import seaborn as sns, pandas as pd\ndf = pd.DataFrame({'x': [1, 2, 1, 2] * 3, 'y': [1, 2, 3, 4, 1.5, 2.5, 3.5, 5, 1, 2, 3, 4.5], 'k': ['a', 'a', 'b', 'b'] * 3})\n"
IN_3D = "ax = plt.figure().add_subplot(projection='3d'); "


def is_chart(kind, elements=None, overlays=None):
    def check(execution):
        found = chart(execution)
        told = [(one["type"], one["elements"]) for one in found.get("overlays", ())]
        return found["type"] == kind and (elements is None or found["elements"] == elements) and (overlays is None or told == overlays)

    return check


def names(execution, field="label"):
    return [element.get(field) for element in chart(execution)["elements"]]


CASES = [
    Case("bars and a line are both there", "import matplotlib.pyplot as plt, numpy as np\nplt.bar(['a', 'b'], [1, 2], label='n'); plt.plot(['a', 'b'], [3, 4], label='trend');", needs=MPL,
         check=is_chart("bar", [{"label": "a", "group": "n", "value": 1}, {"label": "b", "group": "n", "value": 2}],
                        [("line", [{"label": "trend", "points": [["a", 3], ["b", 4]]}])])),
    Case("a line and points are both there", "plt.plot([1, 2], [3, 4], label='l'); plt.scatter([1], [5], label='s');", needs=MPL,
         check=is_chart("line", [{"label": "l", "points": [[1, 3], [2, 4]]}], [("scatter", [{"label": "s", "points": [[1, 5]]}])])),
    Case("a level is no series", "plt.plot([1, 2]); plt.axhline(1.5, label='limit'); plt.axvline(1);", needs=MPL,
         check=is_chart("line", None, [("reference", [{"label": "limit", "axis": "y", "value": 1.5}, {"label": "", "axis": "x", "value": 1}])])),
    Case("points coloured by a number have it", "plt.scatter([1, 2], [3, 4], c=[7, 8]);", needs=MPL, check=lambda e: chart(e)["elements"][0]["values"] == [7, 8]),
    Case("bars have their errors", "plt.bar(['a'], [2], yerr=[0.5]);", needs=MPL, check=is_chart("bar", [{"label": "a", "group": "Group 0", "value": 2, "error": [1.5, 2.5]}], [])),
    Case("lying bars too", "plt.barh(['a'], [2], xerr=[0.5]);", needs=MPL, check=is_chart("bar", [{"label": "a", "group": "Group 0", "value": 2, "error": [1.5, 2.5]}], [])),
    Case("bars that lie say so", "plt.barh(['a'], [2]); plt.xlabel('x'); plt.ylabel('y');", needs=MPL,
         check=lambda e: (chart(e)["orientation"], chart(e)["x_label"], chart(e)["y_label"]) == ("horizontal", "x", "y")),
    Case("and those that stand do not", "plt.bar(['a', 'b'], [2, 2]);", needs=MPL, check=lambda e: "orientation" not in chart(e)),
    Case("boxes that lie say so", "plt.boxplot([[1, 2], [2, 3]], orientation='horizontal');", needs=MPL, check=lambda e: chart(e)["orientation"] == "horizontal"),
    Case("bars beside each other are told apart without a label", "plt.bar([1, 2], [1, 2], 0.4); plt.bar([1.4, 2.4], [3, 4], 0.4);", needs=MPL,
         check=lambda e: names(e, "group") == ["Group 0", "Group 0", "Group 1", "Group 1"]),
    Case("a box that is drawn over itself is one", "ax = plt.subplot(); ax.boxplot([[1, 2], [2, 5]]); ax.boxplot([[1, 2], [2, 5]], patch_artist=True);", needs=MPL,
         check=lambda e: names(e) == ["1", "2"]),
    Case("the same box in another place is another", "plt.boxplot([[1, 2], [1, 2]], tick_labels=['a', 'a']);", needs=MPL, check=lambda e: names(e) == ["a", "a"]),
    Case("where nothing is drawn there is no chart", "figure, ax = plt.subplots(); ax.set_title('nothing');", needs=MPL,
         check=lambda e: "image/png" in e["results"][-1] and "application/vnd.vial.chart+json" not in e["results"][-1]),
    Case("what nobody knows is one, of no kind", "plt.gca().add_artist(plt.Circle((0, 0), 1));", needs=MPL, check=is_chart("unknown", [], [])),
    Case("an error bar is data", "plt.errorbar([1, 2], [3, 4], yerr=[0.5, 0.25], label='e', capsize=3);", needs=MPL,
         check=is_chart("errorbar", [{"label": "e", "points": [[1, 3], [2, 4]], "y_errors": [[2.5, 3.5], [3.75, 4.25]]}], [])),
    Case("a histogram is data", "plt.hist([1, 2, 2, 3], bins=2, label='h');", needs=MPL,
         check=is_chart("histogram", [{"label": "1 – 2", "group": "h", "value": 1, "from": 1, "to": 2}, {"label": "2 – 3", "group": "h", "value": 3, "from": 2, "to": 3}], [])),
    Case("so is one of several", "plt.hist([[1, 2], [2, 3]], bins=2, label=['p', 'q']);", needs=MPL, check=lambda e: names(e, "group") == ["p", "p", "q", "q"]),
    Case("stacked, each has what it counts", "plt.hist([[1, 2, 3], [1, 1, 5]], bins=2, stacked=True, label=['p', 'q']);", needs=MPL,
         check=lambda e: [(one["group"], one["value"]) for one in chart(e)["elements"]] == [("p", 2), ("p", 1), ("q", 2), ("q", 1)]),
    Case("and an outline", "plt.hist([1, 2, 2, 3], bins=2, histtype='step');", needs=MPL, check=lambda e: names(e, "value") == [1, 3] and names(e, "group") == ["Group 0", "Group 0"]),
    Case("a DataFrame's histogram is one", "import pandas as pd\npd.Series([1, 2, 2, 3], name='s').plot.hist(bins=2);", needs=("matplotlib", "pandas"), check=is_chart("histogram")),
    Case("a violin is data", "plt.violinplot([[1, 2, 3], [2, 3, 10]], positions=[1, 4], showmedians=True);", needs=MPL,
         check=lambda e: is_chart("violin", None, [])(e) and [(v["label"], v["min"], v["median"], v["max"]) for v in chart(e)["elements"]] == [("1", 1, 2, 3), ("4", 2, 3, 10)]),
    Case("an area is data", "plt.fill_between([1, 2], [1, 2], [3, 5], label='f');", needs=MPL, check=is_chart("area", [{"label": "f", "points": [[1, 1, 3], [2, 2, 5]]}], [])),
    Case("so are stacked ones", "plt.stackplot([1, 2], [1, 2], [3, 4], labels=['u', 'v']);", needs=MPL,
         check=is_chart("area", [{"label": "u", "points": [[1, 0, 1], [2, 0, 2]]}, {"label": "v", "points": [[1, 1, 4], [2, 2, 6]]}])),
    Case("a band around a line is beside it", "plt.plot([1, 2], [2, 3]); plt.fill_between([1, 2], [1, 2], [3, 4]);", needs=MPL,
         check=is_chart("line", None, [("area", [{"label": "Area 0", "points": [[1, 1, 3], [2, 2, 4]]}])])),
    Case("an image of numbers is a heatmap", "plt.imshow([[1, 2], [3, 4]]); plt.colorbar();", needs=MPL,
         check=is_chart("heatmap", [{"x": [0, 1], "y": [0, 1], "values": [[1, 2], [3, 4]]}])),
    Case("so is a mesh", "plt.pcolormesh([0, 2, 4], [0, 1, 2], [[1, 2], [3, 4.5]]);", needs=MPL,
         check=is_chart("heatmap", [{"x": [1, 3], "y": [0.5, 1.5], "values": [[1, 2], [3, 4.5]]}])),
    Case("a large one is cut and says so", "plt.imshow(np.zeros((300, 200)));", needs=MPL,
         check=lambda e: (h := chart(e)["elements"][0])["shape"] == [300, 200] and len(h["values"]) == 50 and len(h["values"][0]) == 200),
    Case("points in space are data", IN_3D + "ax.scatter([1], [2], [3], label='s'); ax.plot([1, 2], [3, 4], [5, 6], label='l'); ax.set_zlabel('z (m)');", needs=MPL,
         check=lambda e: chart(e)["z_unit"] == "m" and is_chart("line_3d", [{"label": "l", "points": [[1, 3, 5], [2, 4, 6]]}], [("scatter_3d", [{"label": "s", "points": [[1, 2, 3]]}])])(e)),
    Case("a surface is data", IN_3D + "X, Y = np.meshgrid([0, 1], [0, 1]); ax.plot_surface(X, Y, X + Y);", needs=MPL,
         check=is_chart("surface_3d", [{"label": "", "points": [[0, 0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 2]], "shape": [2, 2]}])),
    Case("bars in space are data", IN_3D + "ax.bar3d([0], [1], 0, 1, 1, [5]);", needs=MPL, check=is_chart("bar_3d", [{"label": "", "points": [[0, 1, 5]]}])),
    Case("an axes that was cleared has nothing of before", "plt.boxplot([1, 2]); plt.cla(); plt.plot([1, 2], label='l');", needs=MPL,
         check=is_chart("line", [{"label": "l", "points": [[0, 1], [1, 2]]}], [])),
    # seaborn: names from the legend
    Case("lines have the names of their hue", FRAME + "sns.lineplot(df, x='x', y='y', hue='k', errorbar=None);", needs=SNS, check=lambda e: is_chart("line")(e) and names(e) == ["a", "b"]),
    Case("and their bands too", "sns.lineplot(df, x='x', y='y', hue='k', errorbar='sd');", needs=SNS,
         check=lambda e: [(o["type"], [x["label"] for x in o["elements"]]) for o in chart(e)["overlays"]] == [("area", ["a", "b"])]),
    Case("points have them", "sns.scatterplot(df, x='x', y='y', hue='k');", needs=SNS,
         check=lambda e: [(s["label"], len(s["points"])) for s in chart(e)["elements"]] == [("a", 6), ("b", 6)]),
    Case("bars have them, and their errors", "sns.barplot(df, x='x', y='y', hue='k', errorbar='sd');", needs=SNS,
         check=lambda e: is_chart("bar", None, [])(e) and [(b["label"], b["group"], len(b["error"])) for b in chart(e)["elements"]] == [("1", "a", 2), ("2", "a", 2), ("1", "b", 2), ("2", "b", 2)]),
    Case("boxes have them", "sns.boxplot(df, x='x', y='y', hue='k');", needs=SNS,
         check=lambda e: is_chart("box_and_whisker", None, [])(e) and [(b["label"], b["group"]) for b in chart(e)["elements"]] == [("1", "a"), ("2", "a"), ("1", "b"), ("2", "b")]),
    Case("violins have them", "sns.violinplot(df, x='x', y='y', hue='k');", needs=SNS,
         check=lambda e: is_chart("violin", None, [])(e) and sorted((v["label"], v["group"]) for v in chart(e)["elements"]) == [("1", "a"), ("1", "b"), ("2", "a"), ("2", "b")]),
    Case("histograms have them, with a density over them", "sns.histplot(df, x='y', hue='k', bins=2, kde=True);", needs=SNS,
         check=lambda e: is_chart("histogram")(e) and sorted(set(names(e, "group"))) == ["a", "b"] and [o["type"] for o in chart(e)["overlays"]] == ["line"]),
    Case("a density has them", "sns.kdeplot(df, x='y', hue='k');", needs=SNS, check=lambda e: is_chart("line")(e) and sorted(names(e)) == ["a", "b"]),
    Case("a figure-wide legend counts", "sns.relplot(df, x='x', y='y', hue='k');", needs=SNS, check=lambda e: names(e) == ["a", "b"]),
    Case("a heatmap has the names of rows and columns", "sns.heatmap(pd.DataFrame([[1, 2], [3, 4]], index=['r', 's'], columns=['c', 'd']));", needs=SNS,
         check=is_chart("heatmap", [{"x": ["c", "d"], "y": ["r", "s"], "values": [[1, 2], [3, 4]]}])),
]
