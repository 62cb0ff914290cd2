# SPDX-License-Identifier: Apache-2.0
"""Still pictures of what only a page can show. Each answers with a PNG, or raises what is missing.

plotly and bokeh are drawn by Kaleido's browser, which knows plotly only; for bokeh it is given bokeh's own script in plotly's place (still_bokeh.js).
The browsers stay, so that only the first picture waits for one. altair is drawn by vl-convert, without a browser.
"""

import base64
import json
import os
import subprocess

# The browser is of 2021: bokeh's script is rewritten for it, once for each version.
_BROWSER = "chrome88"
_HERE = os.path.dirname(os.path.abspath(__file__))
_bokeh_scope = None


def of_plotly(figure):
    return figure.to_image(format="png")


def of_altair(spec, version):
    import vl_convert

    # Its own newest version of the grammar draws what an older one means; a version that it does not have it refuses.
    try:
        return vl_convert.vegalite_to_png(spec, vl_version=version)
    except ValueError as problem:
        if "version" not in str(problem).lower():
            raise
        return vl_convert.vegalite_to_png(spec)


def of_bokeh(model):
    from bokeh.embed import json_item

    # As text: the browser sorts the names of objects, and bokeh's order means something.
    item = json.dumps(json_item(model))
    answer = _scope_of_bokeh()._perform_transform({"data": [{"item": item}], "layout": {}}, format="png", width=1, height=1, scale=1)
    if answer.get("code", 0) != 0:
        raise RuntimeError(str(answer.get("message")).split("\n")[0])
    return base64.b64decode(answer["result"])


def _scope_of_bokeh():
    global _bokeh_scope
    if _bokeh_scope is None:
        from kaleido.scopes.plotly import PlotlyScope

        _bokeh_scope = PlotlyScope(plotlyjs=f"file://{_bokeh_script()}")
    return _bokeh_scope


def _bokeh_script():
    import bokeh

    folder = os.path.join(os.path.expanduser("~"), ".cache", "vial")
    path = os.path.join(folder, f"bokeh-{bokeh.__version__}-{_BROWSER}.js")
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    source = os.path.join(os.path.dirname(bokeh.__file__), "server", "static", "js", "bokeh.min.js")
    with open(source, "rb") as script, open(os.path.join(_HERE, "still_bokeh.js"), "rb") as ours:
        # Names are kept: bokeh finds its classes by them.
        command = ["esbuild", f"--target={_BROWSER}", "--keep-names", "--minify-whitespace", "--log-level=error"]
        made = subprocess.run(command, stdin=script, stdout=subprocess.PIPE, check=True).stdout
        text = made + b"\n;\n" + ours.read()
    # Another context may be about the same.
    part = f"{path}.{os.getpid()}"
    with open(part, "wb") as file:
        file.write(text)
    os.replace(part, path)
    return path
