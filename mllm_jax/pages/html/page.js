"use strict";
// The values of a chart of lines at the pointer: its points are in the figure, as JSON.

function nearest(places, x) {
  let best = 0;
  places.forEach((place, at) => {
    if (Math.abs(place - x) < Math.abs(places[best] - x)) best = at;
  });
  return best;
}

function row(series, at) {
  const line = document.createElement("div");
  const key = document.createElement("i");
  const value = document.createElement("b");
  key.className = `key ${series.colour}`;
  value.textContent = series.text[at];
  line.append(key, series.name, value);
  return line;
}

function follow(figure) {
  const svg = figure.querySelector("svg");
  const pointer = figure.querySelector(".pointer");
  const tip = figure.querySelector(".tip");
  const every = JSON.parse(figure.querySelector(".points").textContent);
  const shown = every.filter((series) => !series.faint);

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    // Lines give the step; dots that lie elsewhere are not told there.
    const lead = shown.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    const at = nearest(lead.x, x);
    const head = document.createElement("div");
    head.textContent = `step ${lead.step[at]}`;
    const rows = shown
      .map((series) => [series, series.step.indexOf(lead.step[at])])
      .filter(([, own]) => own >= 0)
      .map(([series, own]) => row(series, own));
    tip.replaceChildren(head, ...rows);
    tip.style.display = "block";
    const place = lead.x[at] * box.width;
    const right = place > box.width / 2;
    tip.style.left = right ? "" : `${place + 14}px`;
    tip.style.right = right ? `${box.width - place + 14}px` : "";
    const width = svg.viewBox.baseVal.width;
    pointer.setAttribute("x1", lead.x[at] * width);
    pointer.setAttribute("x2", lead.x[at] * width);
    pointer.style.visibility = "visible";
  });
  svg.addEventListener("pointerleave", () => {
    tip.style.display = "none";
    pointer.style.visibility = "hidden";
  });
}

document.querySelectorAll("figure.lines").forEach(follow);
