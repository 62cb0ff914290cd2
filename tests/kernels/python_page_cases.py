# SPDX-License-Identifier: Apache-2.0
"""Figures that are pages, and their still pictures when the run asks for images."""
from case import Case
from runners import is_png

PLOTLY, BOKEH, ALTAIR = ("plotly", "kaleido"), ("bokeh", "kaleido", "esbuild"), ("altair", "vl_convert")
IMAGES = {"images": True}


def is_only(mime, starts):
    return lambda execution: [list(bundle) for bundle in execution["results"]] == [[mime]] and execution["results"][0][mime].startswith(starts)


def has_picture(execution):
    """The last result has one beside its page. How soon is a matter of bench/interpreter.py."""
    return is_png(execution["results"][-1]["image/png"]) and "text/html" in execution["results"][-1]


CASES = [
    # plotly
    Case("plotly's picture on request is a PNG", "import plotly.graph_objects as go\nfig = go.Figure(go.Bar(x=[1, 2], y=[2, 3]))\nfig.show(renderer='png')", needs=PLOTLY,
         check=is_only("image/png", "iVBOR")),
    Case("or an SVG", "fig.show(renderer='svg')", needs=PLOTLY, check=is_only("image/svg+xml", "<svg")),
    Case("or both, in the size that was asked for", "fig.show('png+svg', width=300, height=200)", needs=PLOTLY, mimes=("image/png", "image/svg+xml"), has=('width="300"',)),
    Case("a renderer that is chosen for all is used", ["import plotly.io as pio; kept = pio.renderers.default; pio.renderers.default = 'png'", "fig.show()"], needs=PLOTLY,
         check=is_only("image/png", "iVBOR")),
    Case("a renderer that wants a browser shows the page", ["pio.renderers.default = kept", "fig.show(renderer='browser')"], needs=PLOTLY,
         mimes=("text/html", "application/vnd.plotly.v1+json")),
    Case("plotly has no picture unless asked", "fig", needs=PLOTLY, check=lambda e: "image/png" not in e["results"][0]),
    Case("plotly has one when asked", "fig", needs=PLOTLY, options=IMAGES, mimes=("text/html", "application/vnd.plotly.v1+json", "image/png"), stderr="", check=has_picture),
    Case("so has its show()", "fig.show()", needs=PLOTLY, options=IMAGES, check=has_picture),
    # bokeh
    Case("bokeh shows without output_notebook()", "from bokeh.plotting import figure, show\np = figure(width=300, height=200, title='Bees'); p.line([1, 2], [3, 4]); show(p)", needs=("bokeh",),
         mimes=("text/html", "text/plain"), has=("Bees",), stdout="", stderr=""),
    Case("twice", "show(p); show(p)", needs=("bokeh",), check=lambda e: len(e["results"]) == 2 and all("text/html" in bundle for bundle in e["results"])),
    Case("after output_notebook() it does the same", "from bokeh.io import output_notebook\noutput_notebook(); show(p)", needs=("bokeh",), check=lambda e: len(e["results"]) == 1),
    Case("two figures side by side are one page", "from bokeh.layouts import row\nq = figure(width=200, height=200); q.scatter([1], [2]); show(row(p, q))", needs=("bokeh",),
         check=lambda e: len(e["results"]) == 1),
    Case("after output_file() the file is there as well", "from bokeh.io import output_file, reset_output\noutput_file('/workspace/case_bokeh.html'); show(p); reset_output()", needs=("bokeh",),
         files=("/workspace/case_bokeh.html",), check=lambda e: len(e["results"]) == 1),
    Case("bokeh has a picture when asked", ["show(p)", "show(p); show(row(p, q))"], needs=BOKEH, options=IMAGES, stderr="", mimes=("text/html", "image/png")),
    Case("and the next one too", "show(p)", needs=BOKEH, options=IMAGES, check=has_picture),
    Case("of the size that it has", "show(p)", needs=BOKEH, options=IMAGES,
         check=lambda e: _size(e["results"][0]["image/png"]) == (300, 200)),
    # altair
    Case("altair's show() displays", "import altair as alt\nc = alt.Chart({'values': [{'a': 1, 'b': 2}]}).mark_bar().encode(x='a:Q', y='b:Q')\nc.show()", needs=("altair",),
         mimes=("text/html", "application/vnd.vegalite.v5+json")),
    Case("altair has a picture when asked", "c", needs=ALTAIR, options=IMAGES, stderr="", mimes=("text/html", "image/png")),
    Case("and altair's next one too", "c", needs=ALTAIR, options=IMAGES, check=has_picture),
    Case("altair saves one", "c.save('/workspace/case_altair.png')\nopen('/workspace/case_altair.png', 'rb').read(4)", needs=ALTAIR, result="b'\\x89PNG'"),
    Case("a figure without a picture is shown, and stderr tells why",
         ["def broken(*a, **k): raise RuntimeError('no browser')\ntype(fig).to_image, kept_method = broken, type(fig).to_image",
          "fig"], needs=PLOTLY, options=IMAGES, mimes=("text/html",), has=("no picture of this figure: RuntimeError: no browser",)),
    Case("and it has one again when that is repaired", ["type(fig).to_image = kept_method", "fig"], needs=PLOTLY, options=IMAGES, check=has_picture),
]


def _size(text):
    import base64
    import struct

    return struct.unpack(">II", base64.b64decode(text)[16:24])
