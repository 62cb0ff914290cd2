// SPDX-License-Identifier: Apache-2.0
// What Kaleido's browser takes for plotly: it draws a bokeh figure and answers with its picture (stills.py).
"use strict";
if (!Array.prototype.at) {
	const at = function (place) {
		return this[place < 0 ? this.length + place : place];
	};
	Object.defineProperty(Array.prototype, "at", { value: at });
}
if (!Object.hasOwn) Object.hasOwn = (object, name) => Object.prototype.hasOwnProperty.call(object, name);

async function draw(figure) {
	const place = document.createElement("div");
	document.body.appendChild(place);
	try {
		const views = await Bokeh.embed.embed_item(JSON.parse(figure.data[0].item), place);
		const [view] = views.roots;
		const shown = view.model.document;
		if (!shown.is_idle) await new Promise((done) => shown.idle.connect(done));
		const picture = view.export("png", false).canvas.toDataURL("image/png");
		return picture.slice(picture.indexOf(",") + 1);
	} finally {
		place.remove();
	}
}

// A version that Kaleido knows how to talk to.
window.Plotly = { version: "2.0.0", toImage: draw };
