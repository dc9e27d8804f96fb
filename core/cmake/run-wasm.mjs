// Runs a program that emscripten compiled with STANDALONE_WASM: node run-wasm.mjs PROGRAM.wasm [ARGUMENT]...
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program, ...rest] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [program, ...rest], env: process.env, returnOnExit: true });
const module = await WebAssembly.compile(await readFile(program));
// What is not part of WASI: memory grows without notice, and there are no files.
const env = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  if (from === "env") env[name] = () => (name === "emscripten_notify_memory_growth" ? undefined : -1);
}
const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi.wasiImport, env });
process.exitCode = wasi.start(instance);
