"use strict";
const part = id => document.getElementById(id);
const data = JSON.parse(part("data").textContent); // { worker, wasm, models, samples, colors }
const viewer = new Viewer(part("view"));
const models = new Map(); // name -> bytes
let facts; // of the model
let shown = null; // the cloud: { name, count, ... }

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

// One task after another; a failed one shows its error, and the page stays as it was.
let last = Promise.resolve();
function run(task) {
  last = last.then(async () => {
    document.body.ariaBusy = "true";
    try {
      part("error").hidden = true;
      await task();
    } catch (error) {
      part("error").textContent = error.message;
      part("error").hidden = false;
    }
    document.body.ariaBusy = "false";
  });
  return last;
}

async function useModel(name, bytes = models.get(name)) {
  facts = await ask("model", { bytes });
  if (!models.has(name)) part("model").append(new Option(name));
  models.set(name, bytes);
  part("model").value = name;
  part("category").replaceChildren(...facts.categories.map(each => new Option(each)));
  part("category-row").hidden = facts.categories.length === 0;
}

async function useCloud(name, bytes, up) {
  const found = await ask("cloud", { name, bytes });
  shown = { name, ...found };
  part("up").value = up ?? facts.up ?? "z";
}

async function predict() {
  if (!shown) return;
  const up = part("up").value;
  const found = await ask("predict", { up, category: facts.categories.length ? part("category").value : null });
  const points = `${shown.count.toLocaleString("en")} points, ${shown.format}`;
  const left = shown.dropped ? `; ${shown.dropped.toLocaleString("en")} points without valid coordinates left out` : "";
  const time = found.milliseconds < 10 ? found.milliseconds.toFixed(2) : Math.round(found.milliseconds).toLocaleString("en");
  part("facts").textContent =
    `${shown.name}: ${points}${left}. ${time} ms per prediction, ${Math.round(facts.bytes / 1000)} kB.`;
  if (facts.task === "classify") await showClasses(found, up);
  else await showLabels(found, up);
}

async function showClasses({ name, probabilities }, up) {
  part("name").textContent = name;
  const order = Array.from(probabilities.keys()).sort((a, b) => probabilities[b] - probabilities[a]);
  const best = order.slice(0, 5).map(index => bar(facts.classes[index], probabilities[index]));
  part("bars").replaceChildren(...best);
  const { steps, sides, counts } = await ask("view", { up });
  viewer.show({ steps, sides, classes: [{ points: counts[0], rgb: rgbOf(data.colors[0]) }], elevation: 0.35 });
}

async function showLabels({ labels }, up) {
  part("name").textContent = "";
  const { steps, sides, counts } = await ask("view", { up, labels, classes: facts.classes.length });
  const total = counts.reduce((sum, count) => sum + count);
  const classes = facts.classes.map((name, index) => ({
    name,
    points: counts[index],
    rgb: rgbOf(data.colors[index % data.colors.length]),
    hidden: name === "ceiling" && counts[index] < total / 2,
  }));
  part("bars").replaceChildren(
    ...classes.flatMap((kind, index) => (kind.points ? [bar(kind.name, kind.points / total, data.colors[index])] : [])),
  );
  viewer.show({ steps, sides, classes, elevation: classes.some(kind => kind.hidden) ? 0.95 : 0.35 });
}

const rgbOf = color => [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16) / 255);

function bar(name, share, color = null) {
  const entry = Object.assign(document.createElement("div"), { className: "bar" });
  const [fill, text, value] = ["i", "span", "small"].map(tag => document.createElement(tag));
  fill.style.width = `${100 * share}%`;
  text.textContent = name;
  value.textContent = `${(100 * share).toFixed(1)} %`;
  if (color !== null) {
    const mark = document.createElement("b");
    mark.style.background = color;
    entry.append(mark);
  }
  entry.append(fill, text, value);
  return entry;
}

async function openFile(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (file.name.endsWith(".bpn")) {
    await useModel(file.name, bytes);
  } else {
    await useCloud(file.name, bytes);
    press(null);
  }
  await predict();
}

function press(button) {
  for (const each of part("samples").children) each.setAttribute("aria-pressed", each === button);
}

part("file").onchange = () => part("file").files.length && run(() => openFile(part("file").files[0]));
part("model").onchange = () => run(async () => { await useModel(part("model").value); await predict(); });
part("up").onchange = part("category").onchange = () => run(predict);
document.ondragover = event => { event.preventDefault(); part("drop").classList.add("over"); };
document.ondragleave = () => part("drop").classList.remove("over");
document.ondrop = event => {
  event.preventDefault();
  part("drop").classList.remove("over");
  if (event.dataTransfer.files.length) run(() => openFile(event.dataTransfer.files[0]));
};

function addSample({ name, up, content }) {
  const button = Object.assign(document.createElement("button"), { textContent: name.replace(/\.[^.]*$/, "") });
  button.onclick = () => run(async () => {
    await useCloud(name, await unpacked(content), up);
    press(button);
    await predict();
  });
  part("samples").append(button);
  return button;
}

run(async () => {
  await ask("initialize", { wasm: await unpacked(data.wasm) });
  for (const [name, text] of Object.entries(data.models)) {
    models.set(name, await unpacked(text));
    part("model").append(new Option(name));
  }
  await useModel(Object.keys(data.models)[0]);
});
data.samples.map(addSample)[0].click();
