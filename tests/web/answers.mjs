// Answers of the JavaScript package: node answers.mjs REQUESTS. REQUESTS is a JSON file with a list of requests; a JSON
// list with one answer per request is printed. Floats and labels are printed in base64.
import { readFileSync } from "node:fs";
import { BiPointNetError, load, readCloud } from "../../src/bipointnet/web/package/index.js";

const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const base64 = (array) => (array === null ? null : bytesOf(array).toString("base64"));
const floats = (text) => {
  const bytes = Buffer.from(text, "base64");
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};

const actions = {
  async model({ file }) {
    const { bytes, task, classes, categories, channels, points, maxPoints } = await load(readFileSync(file));
    return { bytes, task, classes, categories, channels, points, maxPoints };
  },
  async logits({ file, cloud, category = null }) {
    return base64((await load(readFileSync(file))).logits(floats(cloud), { category }));
  },
  async predict({ file, cloud }) {
    const { label, name, probabilities } = (await load(readFileSync(file))).predict(floats(cloud));
    return { label, name, probabilities: base64(probabilities) };
  },
  async label({ file, cloud, colors, category = null }) {
    const model = await load(readFileSync(file));
    return base64(model.label(floats(cloud), { colors: colors ? floats(colors) : null, category }));
  },
  async read({ file }) {
    const { points, colors, surface, ...rest } = await readCloud(readFileSync(file), file.split("/").at(-1));
    return { points: base64(points), colors: base64(colors), surface: base64(surface), ...rest };
  },
  async freed({ file, cloud }) {
    const model = await load(readFileSync(file));
    model.free();
    model.free();
    return base64(model.logits(floats(cloud)));
  },
  async surface({ file, count }) {
    return (await readCloud(readFileSync(file), "mesh.off", { surfacePoints: count })).surface.length;
  },
  async list({ file, cloud }) {
    const numbers = Array.from(floats(cloud));
    const points = Array.from({ length: numbers.length / 3 }, (_, i) => numbers.slice(3 * i, 3 * i + 3));
    return base64((await load(readFileSync(file))).logits(points));
  },
};

const answers = [];
for (const { action, ...request } of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  try {
    answers.push({ answer: await actions[action](request) });
  } catch (error) {
    if (!(error instanceof BiPointNetError)) throw error;
    answers.push({ error: error.message });
  }
}
console.log(JSON.stringify(answers));
