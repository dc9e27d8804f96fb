// Packed 1-bit networks for point clouds, in browsers and Node.js. The types and their documentation are in index.d.ts.

export class BiPointNetError extends Error {
  name = "BiPointNetError";
}

const MAX_SURFACE_POINTS = 2 ** 24;

let core; // a promise: the module is compiled once

export function initialize(wasm) {
  core ??= instantiate(wasm ?? new URL("bipointnet.wasm", import.meta.url)).catch((error) => {
    core = undefined; // so that a page can try again
    throw error;
  });
  return core.then(() => {});
}

export async function load(bytes) {
  await initialize();
  return new Model(await core, bytesOf(bytes));
}

export async function readCloud(bytes, name, { surfacePoints = 1024, fields = [] } = {}) {
  if (!Number.isInteger(surfacePoints) || surfacePoints < 1 || surfacePoints > MAX_SURFACE_POINTS) {
    throw new BiPointNetError(`surfacePoints is ${surfacePoints}; expected an integer from 1 to ${MAX_SURFACE_POINTS}`);
  }
  await initialize();
  return cloudOf(await core, bytesOf(bytes), name, surfacePoints, fields);
}

export class Model {
  #core;
  #handle;

  constructor(core, bytes) {
    this.#core = core;
    this.#handle = core.scope((room) => {
      const place = room.take(4);
      core.check(core.bipointnet_load_bytes(room.copy(bytes), bytes.length, place));
      return core.view(Uint32Array, place, 1)[0];
    });
    const handle = this.#handle;
    const names = (name, count) =>
      Array.from({ length: core[count](handle) }, (_, index) => core.text(core[name](handle, index)));
    this.bytes = bytes.length;
    this.task = core.text(core.bipointnet_task(handle));
    this.channels = core.bipointnet_channels(handle);
    this.points = core.bipointnet_points(handle);
    this.maxPoints = core.bipointnet_max_points(handle);
    this.classes = names("bipointnet_class_name", "bipointnet_classes");
    this.categories = names("bipointnet_category_name", "bipointnet_categories");
    this.features = names("bipointnet_feature_name", "bipointnet_features");
    this.manifest = JSON.parse(core.text(core.bipointnet_manifest(handle)));
  }

  predict(points) {
    if (this.task !== "classify") {
      throw new BiPointNetError(`a model with task ${this.task}; expected classify; use label()`);
    }
    const logits = this.logits(points);
    let label = 0;
    logits.forEach((value, index) => {
      if (value > logits[label]) label = index;
    });
    const weights = Array.from(logits, (value) => Math.exp(value - logits[label]));
    const sum = weights.reduce((total, weight) => total + weight);
    return { label, name: this.classes[label], probabilities: Float32Array.from(weights, (weight) => weight / sum) };
  }

  logits(points, { category = null } = {}) {
    const core = this.#core;
    const handle = this.#open();
    const cloud = floatsOf(points, this.channels, "points");
    const count = cloud.length / this.channels;
    const number = this.#category(category);
    return core.scope((room) => {
      const size = this.classes.length * (this.task === "classify" ? 1 : count);
      const logits = room.take(4 * size);
      core.check(
        this.task === "classify"
          ? core.bipointnet_predict(handle, room.copy(cloud), 1, count, 0, 1, logits)
          : core.bipointnet_segment(handle, room.copy(cloud), count, number, 0, 1, 0, logits),
      );
      return core.view(Float32Array, logits, size).slice();
    });
  }

  label(points, { colors = null, fields = {}, category = null } = {}) {
    const core = this.#core;
    const handle = this.#open();
    const cloud = floatsOf(points, 3, "points");
    const count = cloud.length / 3;
    const features = this.#featuresOf(count, colors === null ? null : floatsOf(colors, 3, "colors"), fields);
    const number = this.#category(category);
    return core.scope((room) => {
      const labels = room.take(4 * count);
      core.check(core.bipointnet_label(handle, room.copy(cloud), room.copy(features), count, number, 1, labels));
      return core.view(Int32Array, labels, count).slice();
    });
  }

  free() {
    if (this.#handle) this.#core.bipointnet_free(this.#handle);
    this.#handle = 0;
  }

  #open() {
    if (!this.#handle) throw new BiPointNetError("the model was freed; load it again");
    return this.#handle;
  }

  // What the model reads per point besides coordinates, point by point.
  #featuresOf(count, colors, fields) {
    const width = this.features.length;
    const features = new Float32Array(width * count);
    this.features.forEach((name, place) => {
      const channel = ["red", "green", "blue"].indexOf(name);
      const values = channel < 0 ? fields[name] : colors;
      const [stride, first] = channel < 0 ? [1, 0] : [3, channel];
      const what = channel < 0 ? `fields.${name}` : "colors";
      if (!values) throw new BiPointNetError(`no ${what}, which the model reads; expected ${name} per point`);
      if (values.length !== stride * count) {
        throw new BiPointNetError(`${what} has ${values.length} numbers; expected ${stride * count}, ${stride} per point`);
      }
      for (let i = 0; i < count; i++) features[width * i + place] = values[stride * i + first];
    });
    return features;
  }

  // -1 for none; the core says if one is missing.
  #category(name) {
    const number = name === null ? -1 : this.categories.indexOf(name);
    if (name === null || number >= 0) return number;
    const expected = this.categories.length ? `one of ${this.categories.join(", ")}` : "none: the model reads no category";
    throw new BiPointNetError(`category is ${JSON.stringify(name)}; expected ${expected}`);
  }
}

function floatsOf(numbers, channels, what) {
  if (Array.isArray(numbers[0]) && numbers.some((point) => point.length !== channels)) {
    throw new BiPointNetError(`${what} has points with other than ${channels} numbers; expected ${channels} each`);
  }
  const floats = numbers instanceof Float32Array ? numbers : Float32Array.from(Array.from(numbers).flat());
  if (floats.length % channels) {
    throw new BiPointNetError(`${what} has ${floats.length} numbers; expected a multiple of ${channels}, point by point`);
  }
  return floats;
}

function cloudOf(core, bytes, name, surfacePoints, fields) {
  return core.scope((room) => {
    const handle = core.cloud_read(room.copy(bytes), bytes.length, room.copy(encode(name)));
    if (!handle) throw new BiPointNetError(core.text(core.cloud_error()));
    try {
      const count = core.cloud_points(handle);
      const rgb = core.cloud_rgb(handle);
      const notes = [];
      for (let note; (note = core.cloud_note(handle, notes.length)); ) notes.push(core.text(note));
      return {
        points: core.view(Float32Array, core.cloud_xyz(handle), 3 * count).slice(),
        colors: rgb ? core.view(Float32Array, rgb, 3 * count).slice() : null,
        fields: Object.fromEntries(fields.map((field) => [field, fieldOf(core, handle, room.copy(encode(field)), count)])),
        surface: core.cloud_faces(handle) ? surfaceOf(core, handle, surfacePoints) : null,
        format: core.text(core.cloud_format(handle)),
        dropped: core.cloud_dropped(handle),
        notes,
      };
    } finally {
      core.cloud_free(handle);
    }
  });
}

function fieldOf(core, handle, name, count) {
  const place = core.cloud_field(handle, name);
  return place ? Float32Array.from(core.view(Float64Array, place, count)) : null;
}

function surfaceOf(core, handle, count) {
  const place = core.cloud_surface(handle, count);
  if (!place) throw new BiPointNetError(core.text(core.cloud_error()));
  return core.view(Float32Array, place, 3 * count).slice();
}

// The functions of the module, with what JavaScript needs to call them.
async function instantiate(wasm) {
  const { instance } = await WebAssembly.instantiate(await contentOf(wasm), { wasi_snapshot_preview1: wasi, env });
  const { memory, ...functions } = instance.exports;
  functions._initialize?.();
  const view = (Type, place, count) => new Type(memory.buffer, place, count);
  const text = (place) => {
    const all = new Uint8Array(memory.buffer);
    return new TextDecoder().decode(all.subarray(place, all.indexOf(0, place)));
  };
  return {
    ...functions,
    view,
    text,
    check(status) {
      if (status) throw new BiPointNetError(text(functions.bipointnet_error()));
    },
    // Calls work with a room for arguments, which is freed afterwards.
    scope(work) {
      const taken = [];
      const take = (size) => {
        const place = functions.malloc(Math.max(size, 1));
        if (!place) throw new BiPointNetError("not enough memory");
        taken.push(place);
        return place;
      };
      const copy = (array) => {
        const place = take(array.byteLength);
        view(Uint8Array, place, array.byteLength).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
        return place;
      };
      try {
        return work({ take, copy });
      } finally {
        taken.forEach((place) => functions.free(place));
      }
    },
  };
}

const ENOSYS = 52;
const env = { emscripten_notify_memory_growth() {} };
const wasi = {
  environ_sizes_get: () => ENOSYS, // no environment variables
  environ_get: () => ENOSYS,
  proc_exit(code) {
    throw new BiPointNetError(`the module ended with code ${code}`);
  },
};

async function contentOf(wasm) {
  if (!(wasm instanceof URL || typeof wasm === "string")) return bytesOf(wasm);
  const url = new URL(wasm, import.meta.url);
  if (url.protocol === "file:" && globalThis.process?.versions?.node) {
    return (await import("node:fs/promises")).readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new BiPointNetError(`${url}: ${response.status} ${response.statusText}; expected bipointnet.wasm`);
  return response.arrayBuffer();
}

function bytesOf(data) {
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw new BiPointNetError(`the bytes of a file are of type ${typeof data}; expected an ArrayBuffer or a Uint8Array`);
}

const encode = (text) => new TextEncoder().encode(`${text}\0`);
