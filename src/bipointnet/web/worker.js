// Runs in a worker, in one script with the JavaScript package: keeps a model and a cloud, and answers the page.
const VIEW_POINTS = 400_000; // at most, in the view
const TIMED_MS = 30; // how long predictions are repeated to measure their time

let model;
let file; // { bytes, name }
let cloud;

const answers = {
  initialize: ({ wasm }) => initialize(wasm),

  async model({ bytes }) {
    const next = await load(bytes);
    model?.free();
    model = next;
    const { task, classes, categories, bytes: size } = model;
    return { task, classes, categories, size, up: modelUp() };
  },

  async cloud(given) {
    const next = await readCloud(given.bytes, given.name, { surfacePoints: 20_000 });
    [file, cloud] = [given, next];
    const { format, dropped, notes } = cloud;
    return { count: cloud.points.length / 3, format, dropped, notes };
  },

  // up: the axis that points up in the file
  async predict({ up, category }) {
    if (model.task === "classify") return classify(up);
    const start = performance.now();
    const points = rotated(cloud.points, up, modelUp() ?? up);
    const labels = model.label(points, { colors: cloud.colors, fields: await fieldsOf(model), category });
    return { labels, milliseconds: performance.now() - start };
  },

  // What Viewer.show takes: three uint16 per point, z up, sorted by class if there are labels.
  view({ up, labels = null, classes = 1 }) {
    const points = rotated(labels ? cloud.points : (cloud.surface ?? cloud.points), up, "z");
    const order = chosen(points.length / 3, labels, classes);
    const lower = [0, 1, 2].map((axis) => extreme(points, axis, Math.min));
    const sides = lower.map((low, axis) => extreme(points, axis, Math.max) - low);
    const steps = new Uint16Array(3 * order.length);
    const counts = new Array(classes).fill(0);
    order.forEach((point, place) => {
      for (let axis = 0; axis < 3; axis++) {
        steps[3 * place + axis] = (65535 * (points[3 * point + axis] - lower[axis])) / (sides[axis] || 1);
      }
      counts[labels ? labels[point] : 0]++;
    });
    return { steps, sides, counts };
  },
};

onmessage = async ({ data: { id, kind, ...request } }) => {
  try {
    postMessage({ id, answer: await answers[kind](request) });
  } catch (error) {
    postMessage({ id, error: error?.message ?? String(error) });
  }
};

// The columns of the file that the model reads, besides coordinates and colors.
async function fieldsOf(model) {
  const names = model.features.filter((name) => !["red", "green", "blue"].includes(name));
  return names.length ? (await readCloud(file.bytes, file.name, { fields: names })).fields : {};
}

// Of a mesh, as many points of the surface as the model reads, like `bipointnet-run`.
async function classify(up) {
  if (model.channels !== 3) {
    throw new BiPointNetError(`a model that reads ${model.channels} numbers per point; expected 3, the coordinates`);
  }
  const surfacePoints = model.maxPoints || model.points;
  const mesh = cloud.surface && (await readCloud(file.bytes, file.name, { surfacePoints }));
  const points = rotated(mesh?.surface ?? cloud.points, up, modelUp() ?? up);
  return { ...model.predict(points), milliseconds: timed(() => model.logits(points)) };
}

// The axis that pointed up in training; null if the file does not say.
function modelUp() {
  const up = model.manifest.training?.up;
  return ["x", "y", "z"].includes(up) ? up : null;
}

// A quarter turn about the third axis, as in `bipointnet predict --up`.
function rotated(points, up, to) {
  if (up === to) return points;
  const [before, after] = ["xyz".indexOf(up), "xyz".indexOf(to)];
  const turned = points.slice();
  for (let i = 0; i < points.length; i += 3) {
    turned[i + after] = points[i + before];
    turned[i + before] = -points[i + after];
  }
  return turned;
}

function extreme(points, axis, choose) {
  let found = points[axis];
  for (let i = axis; i < points.length; i += 3) found = choose(found, points[i]);
  return found;
}

// The indices of at most VIEW_POINTS points, spread over the cloud, sorted by class.
function chosen(count, labels, classes) {
  const step = Math.max(1, count / VIEW_POINTS);
  const order = Uint32Array.from({ length: Math.floor(count / step) }, (_, i) => Math.floor(i * step));
  if (!labels) return order;
  const groups = Array.from({ length: classes }, () => []);
  for (const point of order) groups[labels[point]].push(point);
  return Uint32Array.from(groups.flat());
}

// The time of one call, in milliseconds. Clocks of browsers have steps of 0.1 ms, so all calls are measured together.
function timed(work) {
  const start = performance.now();
  let calls = 0;
  do {
    work();
    calls++;
  } while (performance.now() < start + TIMED_MS);
  return (performance.now() - start) / calls;
}
