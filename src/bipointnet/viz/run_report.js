// The clouds of the report, and the cursor of its charts.
"use strict";
const part = id => document.getElementById(id);
const data = JSON.parse(part("data").textContent); // { examples, classes, colors }
const HEIGHTS = 24; // a cloud of one class is colored by height, in as many steps
const [LOW, HIGH] = [[0.05, 0.28, 0.52], [0.36, 0.76, 0.93]];
const [RIGHT, WRONG] = ["#8a919c", "#d55e00"];

const rgbOf = color => [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16) / 255);
const shorts = text => new Uint16Array(Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer);

// The labels of the points of an example, and the classes they stand for.
function colored(example, mode) {
  const steps = shorts(example.steps);
  if (!example.truth) {
    const share = index => index / (HEIGHTS - 1);
    const classes = Array.from({ length: HEIGHTS }, (_, i) => ({
      rgb: LOW.map((low, channel) => low + share(i) * (HIGH[channel] - low)),
    }));
    return { steps, classes, labels: Array.from({ length: steps.length / 3 }, (_, i) => (steps[3 * i + 2] * HEIGHTS) >> 16) };
  }
  const [truth, predicted] = [shorts(example.truth), shorts(example.predicted)];
  if (mode === "wrong") {
    const classes = [["right", RIGHT], ["wrong", WRONG]].map(([name, color]) => ({ name, color, rgb: rgbOf(color) }));
    return { steps, classes, labels: Array.from(truth, (label, i) => Number(label !== predicted[i])) };
  }
  const classes = data.classes.map((name, i) => ({ name, color: data.colors[i], rgb: rgbOf(data.colors[i]) }));
  return { steps, classes, labels: Array.from(mode === "truth" ? truth : predicted) };
}

// What Viewer.show takes: points sorted by class.
function arranged(example, mode) {
  const { steps, classes, labels } = colored(example, mode);
  const order = Array.from(labels.keys()).sort((a, b) => labels[a] - labels[b]);
  for (const kind of classes) kind.points = 0;
  for (const label of labels) classes[label].points++;
  const sorted = Uint16Array.from(order.flatMap(point => [0, 1, 2].map(axis => steps[3 * point + axis])));
  return { steps: sorted, sides: example.sides, classes, elevation: 0.4 };
}

function startExamples() {
  const viewer = new Viewer(part("view"));
  const cards = [...document.querySelectorAll(".cards button")];
  const modes = [...document.querySelectorAll(".modes button")];
  let [chosen, mode] = [0, "predicted"];

  function show(keepCamera) {
    const [cloud, { camera }] = [arranged(data.examples[chosen], mode), viewer];
    viewer.show(cloud);
    if (keepCamera && viewer.gl) viewer.camera = camera;
    cards.forEach((card, i) => card.setAttribute("aria-pressed", i === chosen));
    modes.forEach(button => button.setAttribute("aria-pressed", button.dataset.mode === mode));
    const lines = [...cards[chosen].querySelectorAll("small, span")].map(each => each.textContent);
    part("caption").textContent = viewer.gl
      ? `${lines.pop()}: ${lines.join(", ")}`
      : "This browser does not support WebGL 2, which is needed to show clouds.";
    part("legend").replaceChildren(...cloud.classes.filter(kind => kind.name && kind.points).map(kind => entry(viewer, kind)));
  }

  cards.forEach((card, i) => {
    card.onclick = () => {
      chosen = i;
      show(false);
    };
  });
  for (const button of modes) {
    button.onclick = () => {
      mode = button.dataset.mode;
      show(true);
    };
  }
  if (viewer.gl) cards.forEach((card, i) => paintSmall(viewer, card.querySelector("canvas"), arranged(data.examples[i], mode)));
  show(false);
}

// Paint a cloud in the viewer, and copy it before the viewer paints another one.
function paintSmall(viewer, small, cloud) {
  const large = viewer.canvas;
  viewer.show(cloud);
  viewer.paint();
  const ratio = window.devicePixelRatio;
  small.width = small.clientWidth * ratio;
  small.height = small.clientHeight * ratio;
  const scale = Math.min(large.width, large.height) / Math.min(small.width, small.height) * 0.86;
  const [width, height] = [small.width * scale, small.height * scale];
  small.getContext("2d").drawImage(
    large, (large.width - width) / 2, (large.height - height) / 2, width, height, 0, 0, small.width, small.height);
}

// A class with its color; a click hides its points, or shows them again.
function entry(viewer, kind) {
  const button = document.createElement("button");
  const mark = document.createElement("i");
  mark.style.background = kind.color;
  button.append(mark, kind.name);
  button.setAttribute("aria-pressed", "true");
  button.onclick = () => {
    kind.hidden = !kind.hidden;
    button.setAttribute("aria-pressed", !kind.hidden);
    viewer.refresh();
  };
  return button;
}

// The values at the epoch under the pointer replace those of the last epoch in the legend.
for (const figure of document.querySelectorAll(".chart")) {
  const [svg, cursor] = [figure.querySelector("svg"), figure.querySelector(".cursor")];
  const lines = [...figure.querySelectorAll("polyline")].map(line => ({
    places: line.getAttribute("points").split(" ").map(place => Number(place.split(",")[0])),
    points: JSON.parse(line.dataset.points),
  }));
  const values = [...figure.querySelectorAll(".legend b")];
  const last = values.map(value => value.textContent);
  svg.onpointermove = event => {
    const x = (event.clientX - svg.getBoundingClientRect().left) * svg.viewBox.baseVal.width / svg.clientWidth;
    lines.forEach(({ places, points }, i) => {
      const nearest = places.reduce((best, place, at) => (Math.abs(place - x) < Math.abs(places[best] - x) ? at : best), 0);
      values[i].textContent = `${Number(points[nearest][1].toPrecision(4))}${figure.dataset.unit} (epoch ${points[nearest][0]})`;
      cursor.setAttribute("x1", places[nearest]);
      cursor.setAttribute("x2", places[nearest]);
    });
    cursor.setAttribute("visibility", "visible");
  };
  svg.onpointerleave = () => {
    cursor.setAttribute("visibility", "hidden");
    values.forEach((value, i) => (value.textContent = last[i]));
  };
}

if (data.examples.length) startExamples();
