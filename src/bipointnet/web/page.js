"use strict";
const part = id => document.getElementById(id);
const data = JSON.parse(part("data").textContent); // { worker, wasm, models, samples, colors }
const viewer = new Viewer(part("view"));
const models = new Map(); // name -> bytes, of those that were used
let facts; // of the model
let shown = null; // the cloud: { name, count, format, dropped, notes }

// Bytes that the page holds, compressed.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The worker: ask(kind, request) resolves to its answer.
const waiting = new Map();
const worker = new Worker(URL.createObjectURL(new Blob([data.worker], { type: "text/javascript" })));
worker.onmessage = ({ data: { id, answer, error } }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error === undefined) resolve(answer);
  else reject(new Error(error));
};
worker.onerror = event => {
  waiting.forEach(({ reject }) => reject(new Error(`the worker failed: ${event.message}; reload the page`)));
  waiting.clear();
};
function ask(kind, request) {
  const id = Math.random();
  worker.postMessage({ id, kind, ...request });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

// One task after another; a failed one shows its error. Tasks must not read controls, which may have changed meanwhile.
let last = Promise.resolve();
function run(task) {
  last = last.then(async () => {
    document.body.ariaBusy = "true";
    try {
      showError("");
      await task();
    } catch (error) {
      showError(error.message);
    }
    document.body.ariaBusy = "false";
  });
  return last;
}

function showError(text) {
  part("error").textContent = text;
  part("error").hidden = text === "";
}

async function useModel(name, given) {
  const bytes = given ?? models.get(name) ?? await unpacked(data.models[name]);
  part("model").value = facts?.name ?? ""; // as long as it is not loaded
  facts = { name, ...await ask("model", { bytes }) };
  if (!models.has(name) && !(name in data.models)) part("model").append(new Option(name));
  models.set(name, bytes);
  part("model").value = name;
  part("category").replaceChildren(...facts.categories.map(each => new Option(each)));
  part("category-row").hidden = facts.categories.length === 0;
  chooseCategory();
}

// Samples of rooms are for models that label rooms. If the one that is shown does not fit, the first that does replaces it.
async function useFittingSample() {
  const [buttons, rooms] = [[...part("samples").children], facts.task === "semantic"];
  buttons.forEach((button, index) => { button.hidden = data.samples[index].room === !rooms; });
  const pressed = buttons.findIndex(button => button.getAttribute("aria-pressed") === "true");
  const first = buttons.findIndex(button => !button.hidden);
  if (first >= 0 && (shown === null || (pressed >= 0 && buttons[pressed].hidden))) await useSample(first);
}

async function useSample(index) {
  const { name, up, content } = data.samples[index];
  await useCloud(name, await unpacked(content), up);
  press(part("samples").children[index]);
}

async function useCloud(name, bytes, up = null) {
  const found = await ask("cloud", { name, bytes });
  shown = { name, ...found };
  part("up").value = up ?? facts.up ?? "z";
  chooseCategory();
}

// The category that is the first word of the name of the cloud, if there is one.
function chooseCategory() {
  const word = shown?.name.toLowerCase().match(/^[a-z]*/)[0];
  const named = facts.categories.find(each => each.toLowerCase() === word);
  if (named) part("category").value = named;
}

// If it fails, no answer stands there that belongs to another model or cloud.
async function predict(up = part("up").value, category = part("category").value) {
  if (!shown) return;
  part("name").textContent = part("facts").textContent = "";
  part("bars").replaceChildren();
  const found = await ask("predict", { up, category: facts.categories.length ? category : null });
  part("facts").textContent = sentence(found.milliseconds);
  if (facts.task === "classify") await showClasses(found, up);
  else await showLabels(found, up);
}

function sentence(milliseconds) {
  const time = milliseconds < 10 ? milliseconds.toFixed(2) : Math.round(milliseconds).toLocaleString("en");
  const notes = [...shown.notes];
  if (shown.dropped) notes.push(`${shown.dropped.toLocaleString("en")} points without valid coordinates were left out`);
  const cloud = [`${shown.name}: ${shown.count.toLocaleString("en")} points, ${shown.format}`, ...notes].join("; ");
  return `${cloud}. ${time} ms per prediction, ${Math.round(facts.size / 1000)} kB.`;
}

async function showClasses({ name, probabilities }, up) {
  part("name").textContent = name;
  const order = Array.from(probabilities.keys()).sort((a, b) => probabilities[b] - probabilities[a]);
  part("bars").replaceChildren(...order.slice(0, 5).map(index => bar("div", facts.classes[index], probabilities[index])));
  const { steps, sides, counts } = await ask("view", { up });
  viewer.show({ steps, sides, classes: [{ points: counts[0], rgb: rgbOf(data.colors[0]) }], elevation: 0.35 });
}

async function showLabels({ labels }, up) {
  const { steps, sides, counts } = await ask("view", { up, labels, classes: facts.classes.length });
  const total = counts.reduce((sum, count) => sum + count);
  const classes = facts.classes.map((name, index) => {
    const color = data.colors[index % data.colors.length];
    const hidden = name === "ceiling" && counts[index] < total / 2; // seen from above, it hides the room
    return { name, color, rgb: rgbOf(color), points: counts[index], hidden };
  });
  part("bars").replaceChildren(...classes.filter(kind => kind.points).map(kind => legendEntry(kind, total)));
  viewer.show({ steps, sides, classes, elevation: classes.some(kind => kind.hidden) ? 0.95 : 0.35 });
}

const rgbOf = color => [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16) / 255);

function bar(tag, name, share) {
  const entry = Object.assign(document.createElement(tag), { className: "bar" });
  const [fill, text, value] = ["i", "span", "small"].map(each => document.createElement(each));
  fill.style.width = `${100 * share}%`;
  text.textContent = name;
  value.textContent = `${(100 * share).toFixed(1)} %`;
  entry.append(fill, text, value);
  return entry;
}

// A class with its color; a click hides its points, or shows them again.
function legendEntry(kind, total) {
  const entry = bar("button", kind.name, kind.points / total);
  const mark = document.createElement("b");
  mark.style.background = kind.color;
  entry.firstChild.after(mark); // above the bar
  const hide = hidden => {
    kind.hidden = hidden;
    entry.setAttribute("aria-pressed", !hidden);
    viewer.refresh();
  };
  entry.onclick = () => hide(!kind.hidden);
  hide(kind.hidden);
  return entry;
}

async function openFile(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (file.name.toLowerCase().endsWith(".bpn")) {
    await useModel(file.name, bytes);
    await useFittingSample();
  } else {
    await useCloud(file.name, bytes);
    press(null);
  }
  await predict();
}

function press(button) {
  for (const each of part("samples").children) each.setAttribute("aria-pressed", each === button);
}

function addSample({ name }, index) {
  const button = Object.assign(document.createElement("button"), { textContent: name.replace(/\.[^.]*$/, "") });
  button.onclick = () => run(async () => {
    await useSample(index);
    await predict();
  });
  part("samples").append(button);
}

part("file").onchange = () => {
  const [file] = part("file").files;
  part("file").value = ""; // so that the same file can be chosen again
  if (file) run(() => openFile(file));
};
part("model").onchange = () => {
  const name = part("model").value;
  run(async () => {
    await useModel(name);
    await useFittingSample();
    await predict();
  });
};
part("up").onchange = part("category").onchange = () => {
  const [up, category] = [part("up").value, part("category").value];
  run(() => predict(up, category));
};
document.ondragover = event => {
  event.preventDefault();
  part("drop").classList.add("over");
};
document.ondragleave = () => part("drop").classList.remove("over");
document.ondrop = event => {
  event.preventDefault();
  part("drop").classList.remove("over");
  const [file] = event.dataTransfer.files;
  if (file) run(() => openFile(file));
};

if (!viewer.gl) part("no-view").hidden = false;
run(async () => {
  await ask("initialize", { wasm: await unpacked(data.wasm) });
  const names = Object.keys(data.models);
  part("model").append(...names.map(name => new Option(name)));
  await useModel(names[0]);
  data.samples.forEach(addSample);
  await useFittingSample();
  await predict();
});
