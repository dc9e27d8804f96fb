/** A mistake that a user can fix: one sentence with what was found and what was expected. */
export class BiPointNetError extends Error {}

/** The bytes of a file. */
export type Bytes = ArrayBuffer | ArrayBufferView;

/** Numbers of a cloud, point by point; several numbers per point, xyz first. A list of points is flattened. */
export type Numbers = Float32Array | ArrayLike<number> | number[][];

/**
 * Compile the WebAssembly module. `load` and `readCloud` do it, too; call it before them if `bipointnet.wasm` is not
 * beside `index.js`, with its address or its bytes.
 */
export function initialize(wasm?: URL | string | Bytes): Promise<void>;

/**
 * Load a packed model, as `bipointnet export` writes it.
 *
 *     const model = await load(await (await fetch("chairs.bpn")).arrayBuffer());
 *     const { name, probabilities } = model.predict(points);
 */
export function load(bytes: Bytes): Promise<Model>;

/** Read the cloud in a file: ply, pcd, las, off, obj, stl, npy, ptx, text or raw floats. The suffix of `name` decides. */
export function readCloud(bytes: Bytes, name: string, options?: { surfacePoints?: number; fields?: string[] }): Promise<Cloud>;

export interface Prediction {
  /** The index of the most probable class. */
  label: number;
  name: string;
  probabilities: Float32Array;
}

export interface Cloud {
  /** xyz per point, finite. Large coordinates are moved near 0. */
  points: Float32Array;
  /** Red, green and blue per point, from 0 to 1; null without colors. */
  colors: Float32Array | null;
  /** The columns that were asked for with `fields`, such as intensity, one number per point; null if the file has no such column. */
  fields: Record<string, Float32Array | null>;
  /** `surfacePoints` (1024) points of the surface, uniform by area, which a classifier reads instead of `points`; null without faces. */
  surface: Float32Array | null;
  /** For people, like "PLY, binary little-endian". */
  format: string;
  /** The number of points without valid coordinates, which were left out. */
  dropped: number;
  /** What a person should know about the file. */
  notes: string[];
}

export class Model {
  private constructor();
  readonly task: "classify" | "part" | "semantic";
  readonly classes: string[];
  /** Categories that a model with task "part" needs as an input. */
  readonly categories: string[];
  /** Numbers per point. */
  readonly channels: number;
  /** What `label` needs per point besides coordinates: red, green and blue, or columns of files such as intensity. */
  readonly features: string[];
  /** Points per cloud in training. */
  readonly points: number;
  /** The most points that a prediction uses; of a larger cloud it takes a fixed sample. 0: all points. */
  readonly maxPoints: number;
  /** The size of the file. */
  readonly bytes: number;
  /** What the file says about itself. */
  readonly manifest: Record<string, unknown>;
  /** Classify a cloud; for task "classify". */
  predict(points: Numbers): Prediction;
  /** The logits, the same bits as on every other machine: one per class; for tasks "part" and "semantic" per point. */
  logits(points: Numbers, options?: { category?: string | null }): Float32Array;
  /** The class of every point, for tasks "part" and "semantic"; points: xyz, for "semantic" in meters with z up. */
  label(
    points: Numbers,
    options?: { colors?: Numbers | null; fields?: Record<string, ArrayLike<number> | null>; category?: string | null },
  ): Int32Array;
  /** Free the memory of the model. */
  free(): void;
}
