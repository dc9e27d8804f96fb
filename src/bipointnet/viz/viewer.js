// A point cloud in a canvas, by WebGL 2: points are discs with shaded edges. Drag to rotate, wheel or pinch to zoom,
// shift-drag or two fingers to pan; arrow keys rotate, + and - zoom.
"use strict";
const [NEAR, FAR] = [0.01, 30];

// Two passes: render the points to a color and a depth texture, then those to the page with shaded depth edges.
const DEPTHS = `const float NEAR = ${NEAR.toFixed(3)}, FAR = ${FAR.toFixed(3)};`;
const DISCS = [`#version 300 es
  ${DEPTHS}
  in vec3 place;  // 0 to 1 from one side of the cloud to the other
  uniform vec3 extent, target;
  uniform mat3 turn;
  uniform vec2 scale;
  uniform float range, size;
  void main() {
    vec3 seen = turn * ((place - 0.5) * extent - target);
    float away = range - seen.z;
    gl_Position = vec4(seen.xy * scale, (away * (FAR + NEAR) - 2.0 * FAR * NEAR) / (FAR - NEAR), away);
    gl_PointSize = clamp(size / away, 1.0, 100.0);
  }`, `#version 300 es
  precision mediump float;
  uniform vec3 rgb;
  out vec4 pixel;
  void main() {
    if (length(gl_PointCoord - 0.5) > 0.5) discard;
    pixel = vec4(rgb, 1);
  }`];
const SHADE = [`#version 300 es
  void main() {  // one triangle that covers the canvas
    gl_Position = vec4(gl_VertexID == 1 ? 3 : -1, gl_VertexID == 2 ? 3 : -1, 0, 1);
  }`, `#version 300 es
  precision highp float;
  ${DEPTHS}
  uniform highp sampler2D colors, depths;
  uniform float ratio, angle;  // screen pixels per page pixel; the size of a screen pixel at distance 1
  out vec4 pixel;
  float away(ivec2 at) {  // with the logarithm, a step is equally dark at any distance
    float depth = texelFetch(depths, clamp(at, ivec2(0), textureSize(depths, 0) - 1), 0).r;
    return log(NEAR * FAR / (FAR - depth * (FAR - NEAR)));
  }
  void main() {  // eye-dome lighting, as in render.py
    ivec2 at = ivec2(gl_FragCoord.xy);
    if (texelFetch(depths, at, 0).r == 1.0) discard;
    float here = away(at), steps = 0.0;
    for (int k = 0; k < 16; k++) {
      float reach = ratio * (k < 8 ? 1.5 : 4.5), around = 0.7854 * float(k);
      ivec2 beside = at + ivec2(round(reach * vec2(cos(around), sin(around))));
      steps += clamp((here - away(beside)) / (reach * angle), 0.0, 12.0);
    }
    pixel = vec4(texelFetch(colors, at, 0).rgb * exp(-0.014 * steps), 1);
  }`];

class Viewer {
  pointSize = 0; // a power of two

  constructor(canvas) {
    this.canvas = canvas;
    this.gl = canvas.getContext("webgl2", { antialias: false, depth: false });
    this.fingers = new Map(); // places of the pressed pointers
    if (!this.gl) return;
    this.prepare();
    this.listen();
    new ResizeObserver(() => this.refresh()).observe(canvas);
  }

  // cloud: { steps, sides, classes, elevation }
  //   steps      three uint16 per point, 0 to 65535 from one side of the cloud to the other, z up, sorted by class
  //   sides      the lengths of the three sides
  //   classes    [{ points, rgb, hidden }]; `hidden` may change, then call refresh()
  //   elevation  of the camera at first
  show(cloud) {
    this.cloud = cloud;
    this.extent = cloud.sides.map(side => side / (Math.hypot(...cloud.sides) || 1));
    if (!this.gl) return;
    const [x, y, z] = this.extent;
    const area = x * y + y * z + z * x;
    this.diameter = Math.min(0.02, Math.max(0.003, 3 * Math.sqrt(area / (cloud.steps.length / 3))));
    this.gl.bufferData(this.gl.ARRAY_BUFFER, cloud.steps, this.gl.STATIC_DRAW);
    this.home();
  }

  // The camera points at the target; the cloud has a diagonal of 1 and is centered at zero.
  home() {
    const elevation = this.cloud?.elevation ?? 0;
    this.camera = { azimuth: -Math.PI / 3, elevation, distance: 2.4, target: [0, 0, 0] };
    this.refresh();
  }

  // Paint one frame for all changes since the last one.
  refresh() {
    if (this.requested || !this.gl || !this.cloud) return;
    this.requested = true;
    requestAnimationFrame(() => {
      this.requested = false;
      this.paint();
    });
  }

  // Unit vectors to the right, up, and toward the viewer.
  directions() {
    const [s, c] = [Math.sin(this.camera.azimuth), Math.cos(this.camera.azimuth)];
    const [t, d] = [Math.sin(this.camera.elevation), Math.cos(this.camera.elevation)];
    return [[-s, c, 0], [-c * t, -s * t, d], [c * d, s * d, t]];
  }

  // Pixels per unit at distance 1; the diagonal fits the shorter side of the canvas.
  focal() {
    return 2 * Math.min(this.canvas.clientWidth, this.canvas.clientHeight);
  }

  rotate(x, y) {
    this.camera.azimuth -= x;
    this.camera.elevation = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, this.camera.elevation + y));
    this.refresh();
  }

  zoom(factor) {
    if (factor > 0 && factor < Infinity) {
      this.camera.distance = Math.max(0.03, Math.min(20, this.camera.distance * factor));
    }
    this.refresh();
  }

  // Mouse, pen, fingers and keys. One pointer rotates; with shift or another button it pans; two fingers pan and zoom.
  listen() {
    const { canvas, fingers } = this;
    canvas.onpointerdown = event => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
    };
    canvas.onpointerup = canvas.onpointercancel = event => fingers.delete(event.pointerId);
    canvas.oncontextmenu = event => event.preventDefault();
    canvas.onpointermove = event => {
      if (this.cloud && fingers.has(event.pointerId)) this.drag(event);
    };
    canvas.onkeydown = event => {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      if (!this.cloud || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in moves) this.rotate(...moves[event.key].map(step => 0.1 * step));
      else if ("+=-".includes(event.key)) this.zoom(event.key === "-" ? 1 / 0.9 : 0.9);
      else return;
      event.preventDefault();
    };
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      if (this.cloud) this.zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.0015)));
    }, { passive: false });
  }

  drag(event) {
    const { camera, fingers } = this;
    const before = fingers.get(event.pointerId);
    const now = [event.clientX, event.clientY];
    const [x, y] = [now[0] - before[0], now[1] - before[1]];
    fingers.set(event.pointerId, now);
    if (fingers.size === 1 && !event.shiftKey && !(event.buttons & 6)) return this.rotate(0.007 * x, 0.007 * y);
    const [right, up] = this.directions();
    const unit = camera.distance / this.focal() / fingers.size;
    camera.target = camera.target.map((place, axis) => place + unit * (y * up[axis] - x * right[axis]));
    for (const [id, [otherX, otherY]] of fingers) {
      if (id !== event.pointerId) {
        this.zoom(Math.hypot(before[0] - otherX, before[1] - otherY) / Math.hypot(now[0] - otherX, now[1] - otherY));
      }
    }
    this.refresh();
  }

  prepare() {
    const { gl } = this;
    [this.discs, this.shade] = [this.program(DISCS), this.program(SHADE)];
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.enableVertexAttribArray(this.discs.place);
    gl.vertexAttribPointer(this.discs.place, 3, gl.UNSIGNED_SHORT, true, 0, 0);
    this.buffer = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.buffer);
    [gl.COLOR_ATTACHMENT0, gl.DEPTH_ATTACHMENT].forEach((place, unit) => {
      const texture = gl.createTexture();
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_2D, texture);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
      gl.framebufferTexture2D(gl.FRAMEBUFFER, place, gl.TEXTURE_2D, texture, 0);
    });
  }

  fit(width, height) {
    const { canvas, gl } = this;
    if (canvas.width === width && canvas.height === height && this.fitted) return;
    this.fitted = true;
    Object.assign(canvas, { width, height });
    gl.activeTexture(gl.TEXTURE0);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, width, height, 0, gl.RGBA, gl.UNSIGNED_BYTE, null);
    gl.activeTexture(gl.TEXTURE1);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.DEPTH_COMPONENT24, width, height, 0, gl.DEPTH_COMPONENT, gl.UNSIGNED_INT, null);
    gl.viewport(0, 0, width, height);
  }

  paint() {
    const { canvas, gl, camera, discs, shade } = this;
    const [wide, high, ratio] = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio];
    if (!wide || !high) return;
    this.fit(Math.round(wide * ratio), Math.round(high * ratio));

    gl.bindFramebuffer(gl.FRAMEBUFFER, this.buffer);
    gl.enable(gl.DEPTH_TEST);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(discs.program);
    gl.uniform3fv(discs.extent, this.extent);
    gl.uniform3fv(discs.target, camera.target);
    gl.uniformMatrix3fv(discs.turn, true, this.directions().flat());
    gl.uniform2f(discs.scale, 2 * this.focal() / wide, 2 * this.focal() / high);
    gl.uniform1f(discs.range, camera.distance);
    gl.uniform1f(discs.size, this.diameter * this.focal() * ratio * 2 ** this.pointSize);
    let first = 0;
    for (const kind of this.cloud.classes) {
      gl.uniform3fv(discs.rgb, kind.rgb);
      if (!kind.hidden) gl.drawArrays(gl.POINTS, first, kind.points);
      first += kind.points;
    }

    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.disable(gl.DEPTH_TEST);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.useProgram(shade.program);
    gl.uniform1i(shade.colors, 0);
    gl.uniform1i(shade.depths, 1);
    gl.uniform1f(shade.ratio, ratio);
    gl.uniform1f(shade.angle, 1 / (this.focal() * ratio));
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  // A linked program with the locations of its attributes and uniforms by name.
  program(sources) {
    const { gl } = this;
    const made = { program: gl.createProgram() };
    sources.forEach((source, which) => {
      const shader = gl.createShader(which ? gl.FRAGMENT_SHADER : gl.VERTEX_SHADER);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(made.program, shader);
    });
    gl.linkProgram(made.program);
    if (!gl.getProgramParameter(made.program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made.program));
    for (let k = 0; k < gl.getProgramParameter(made.program, gl.ACTIVE_UNIFORMS); k++) {
      const { name } = gl.getActiveUniform(made.program, k);
      made[name] = gl.getUniformLocation(made.program, name);
    }
    return Object.assign(made, { place: gl.getAttribLocation(made.program, "place") });
  }
}
