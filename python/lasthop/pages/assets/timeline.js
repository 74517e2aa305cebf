/* Linked charts over time, drawn with uPlot. The data are in the element `data`; see
   lasthop.inspection.page for their form. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const full = [data.start, data.end];
  let range = full.slice();
  const plots = [];
  /** Units of what comes in whole numbers, and the steps of their axis. */
  const COUNTS = new Set(["index", "MPDUs"]);
  const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500];
  const numbers = (text, Type) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Type(bytes.buffer);
  };
  const times = (text) => Float64Array.from(numbers(text, Uint32Array), (x) => x * data.tick);
  const values = (text) => numbers(text, Float32Array);
  /** Index of the last time at or before t; -1 if there is none. */
  const before = (t, x) => {
    let low = 0, high = t.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (t[mid] <= x) low = mid + 1; else high = mid;
    }
    return low - 1;
  };
  const digits = (x) => (Math.abs(x) >= 1000 ? x.toFixed(0) : String(Number(x.toPrecision(4))));
  const seconds = (x) => `${x.toFixed(range[1] - range[0] < 1 ? 4 : 3)} s`;

  const shapes = {
    x: (c, r) => { c.moveTo(-r, -r); c.lineTo(r, r); c.moveTo(-r, r); c.lineTo(r, -r); },
    plus: (c, r) => { c.moveTo(-r, 0); c.lineTo(r, 0); c.moveTo(0, -r); c.lineTo(0, r); },
    minus: (c, r) => { c.moveTo(-r, 0); c.lineTo(r, 0); },
    star: (c, r) => { shapes.x(c, r * .8); shapes.plus(c, r); },
    o: (c, r) => { c.moveTo(r, 0); c.arc(0, 0, r, 0, 2 * Math.PI); },
    diamond: (c, r) => {
      c.moveTo(0, -r * 1.3); c.lineTo(r * 1.3, 0); c.lineTo(0, r * 1.3); c.lineTo(-r * 1.3, 0);
      c.closePath();
    },
    square: (c, r) => c.rect(-r, -r, 2 * r, 2 * r),
    triangle: (c, r) => { c.moveTo(0, -r); c.lineTo(r, r); c.lineTo(-r, r); c.closePath(); },
    down: (c, r) => { c.moveTo(0, r); c.lineTo(r, -r); c.lineTo(-r, -r); c.closePath(); },
  };

  const drawMark = (c, mark, x, y, yEnd, scale) => {
    c.save();
    c.translate(x, y);
    c.strokeStyle = c.fillStyle = mark.color;
    c.lineWidth = 1.6 * scale;
    if (mark.shape === "bar") {
      c.fillRect(-scale, yEnd - y, 2 * scale, Math.max(y - yEnd, scale));
    } else if (mark.shape.length === 1 && !shapes[mark.shape]) {
      c.font = `bold ${11 * scale}px system-ui, sans-serif`;
      c.textAlign = "center";
      c.fillText(mark.shape, 0, -3 * scale);
      c.fillRect(-scale, -scale, 2 * scale, 2 * scale);
    } else {
      c.beginPath();
      shapes[mark.shape](c, 3.6 * scale);
      c.stroke();
    }
    c.restore();
  };

  /** The image of a series or a mark in a legend. */
  const swatch = (item) => {
    const canvas = document.createElement("canvas");
    const scale = window.devicePixelRatio || 1;
    canvas.width = 22 * scale;
    canvas.height = 14 * scale;
    canvas.style.width = "22px";
    canvas.style.height = "14px";
    canvas.setAttribute("aria-hidden", "true");
    const c = canvas.getContext("2d");
    if (item.shape) {
      const bar = item.shape === "bar";
      drawMark(c, item, 11 * scale, (bar || !shapes[item.shape] ? 11 : 7) * scale, 3 * scale, scale);
    } else if (item.kind === "fill") {
      c.fillStyle = item.color;
      c.fillRect(0, 2 * scale, 22 * scale, 10 * scale);
    } else if (item.kind === "dots") {
      c.fillStyle = item.color;
      for (const x of [5, 11, 17]) c.fillRect((x - 1) * scale, 6 * scale, 2.4 * scale, 2.4 * scale);
    } else {
      c.strokeStyle = item.color;
      c.lineWidth = 2 * scale;
      c.setLineDash((item.dash || []).map((d) => d * scale));
      c.beginPath();
      c.moveTo(0, 7 * scale);
      c.lineTo(22 * scale, 7 * scale);
      c.stroke();
    }
    return canvas;
  };

  const spans = (u, column) => {
    const c = u.ctx, box = u.bbox, scale = uPlot.pxRatio;
    c.save();
    c.beginPath();
    c.rect(box.left, box.top, box.width, box.height);
    c.clip();
    const draw = (start, end, fill) => {
      const x = u.valToPos(start, "x", true), to = u.valToPos(end, "x", true);
      c.fillStyle = fill;
      c.fillRect(x, box.top, Math.max(to - x, scale), box.height);
      return [x, to];
    };
    for (const [start, end] of column.outages) {
      const [x, to] = draw(start, end, "rgba(0,0,0,.13)");
      c.strokeStyle = "rgba(0,0,0,.28)";
      c.lineWidth = scale;
      c.beginPath();
      c.rect(x, box.top, Math.max(to - x, scale), box.height);
      c.save();
      c.clip();
      c.beginPath();
      const from = Math.max(x, box.left) - box.height, until = Math.min(to, box.left + box.width);
      for (let at = from - (from % (9 * scale)); at < until; at += 9 * scale) {
        c.moveTo(at, box.top + box.height);
        c.lineTo(at + box.height, box.top);
      }
      c.stroke();
      c.restore();
    }
    let free = -Infinity;
    c.font = `${11 * scale}px system-ui, sans-serif`;
    c.textAlign = "left";
    column.stalls.forEach(([start, end], i) => {
      const [x] = draw(start, end, "rgba(213,94,0,.12)");
      const text = `${i + 1}`, left = Math.max(x, box.left) + 2 * scale;
      const width = c.measureText(text).width;
      if (end < range[0] || start > range[1] || left < free || left + width > box.left + box.width) return;
      c.fillStyle = "#8a3c00";
      c.fillText(text, left, box.top + 11 * scale);
      free = left + width + 3 * scale;
    });
    c.restore();
  };

  const marksOf = (u, panel) => {
    const c = u.ctx, box = u.bbox, scale = uPlot.pxRatio;
    c.save();
    c.beginPath();
    c.rect(box.left, box.top - 4 * scale, box.width, box.height + 8 * scale);
    c.clip();
    for (const item of panel.series.filter((x) => x.kind === "dots" && x.shown)) {
      const last = before(item.t, range[1]);
      c.fillStyle = item.color;
      for (let i = before(item.t, range[0] - 1e-9) + 1; i <= last; i++) {
        const x = u.valToPos(item.t[i], "x", true), y = u.valToPos(item.v[i], "y", true);
        c.fillRect(x - 1.2 * scale, y - 1.2 * scale, 2.4 * scale, 2.4 * scale);
      }
    }
    for (const mark of panel.marks) {
      if (!mark.shown) continue;
      const last = before(mark.t, range[1]);
      for (let i = before(mark.t, range[0] - 1e-9) + 1; i <= last; i++) {
        const x = u.valToPos(mark.t[i], "x", true), y = u.valToPos(mark.v[i], "y", true);
        drawMark(c, mark, x, y, mark.e ? u.valToPos(mark.e[i], "y", true) : y, scale);
      }
    }
    c.restore();
  };

  const drawShares = (u, shares) => {
    const c = u.ctx, box = u.bbox;
    c.save();
    c.beginPath();
    c.rect(box.left, box.top, box.width, box.height);
    c.clip();
    const width = shares.width, first = Math.max(0, Math.floor((range[0] - data.start) / width) - 1);
    const count = shares.rows[0].v.length;
    for (let i = first; i < count && data.start + i * width <= range[1]; i++) {
      const x = u.valToPos(data.start + i * width, "x", true);
      const to = u.valToPos(Math.min(data.start + (i + 1) * width, data.end), "x", true);
      let y = box.top + box.height;
      for (const row of shares.rows) {
        const height = row.v[i] * box.height;
        c.fillStyle = row.color;
        if (height > 0) c.fillRect(x, y - height, to - x + .6, height);
        y -= height;
      }
    }
    c.restore();
  };

  /** Smallest and largest visible value of the panels with a key, in all columns. */
  const extent = (key) => {
    let low = Infinity, high = -Infinity;
    const see = (x) => { if (x < low) low = x; if (x > high) high = x; };
    for (const plot of plots.filter((p) => p.panel.key === key)) {
      for (const item of [...plot.panel.series, ...plot.panel.marks]) {
        if (!item.shown) continue;
        const last = before(item.t, range[1]);
        const from = before(item.t, range[0] - 1e-9);
        const first = item.kind === "step" ? Math.max(from, 0) : from + 1;
        for (let i = first; i <= last; i++) {
          see(item.v[i]);
          if (item.e) see(item.e[i]);
        }
      }
    }
    if (low > high) return [0, 1];
    if (key !== "sequence") low = Math.min(0, low);
    const room = (high - low || high || 1) * .06;
    return [low === 0 ? 0 : low - room, high + room];
  };

  const readout = (plot) => {
    const at = plot.u.cursor.left;
    if (at === undefined || at < 0) { plot.readout.textContent = ""; return; }
    const x = plot.u.posToVal(at, "x"), parts = [seconds(x)];
    for (const item of plot.panel.series.filter((s) => s.shown)) {
      const i = before(item.t, x);
      if (i >= 0 && !Number.isNaN(item.v[i])) {
        parts.push(`${item.label} ${digits(item.v[i])} ${plot.panel.unit}`);
      }
    }
    if (plot.panel.shares) {
      const i = Math.floor((x - data.start) / plot.panel.shares.width);
      for (const row of plot.panel.shares.rows) {
        if (row.v[i] >= .005) parts.push(`${row.label} ${(100 * row.v[i]).toFixed(0)} %`);
      }
    }
    plot.readout.textContent = parts.join(" · ");
  };

  const where = document.getElementById("where");
  const setRange = (low, high) => {
    const least = Math.max((full[1] - full[0]) * 1e-7, data.tick * 10);
    const wide = Math.min(Math.max(high - low, least), full[1] - full[0]);
    low = Math.min(Math.max(low, full[0]), full[1] - wide);
    range = [low, low + wide];
    where.textContent = `${seconds(range[0])} to ${seconds(range[1])}`;
    const extents = {};
    for (const plot of plots) {
      const key = plot.panel.key;
      extents[key] ??= plot.panel.shares ? [0, 1] : extent(key);
      plot.y = extents[key];
      plot.u.batch(() => {
        plot.u.setScale("x", { min: range[0], max: range[1] });
        plot.u.setScale("y", { min: plot.y[0], max: plot.y[1] });
      });
    }
  };
  const zoom = (factor) => {
    const middle = (range[0] + range[1]) / 2, half = (range[1] - range[0]) * factor / 2;
    setRange(middle - half, middle + half);
  };
  const pan = (share) => {
    const by = (range[1] - range[0]) * share;
    setRange(range[0] + by, range[1] + by);
  };
  const commands = {
    in: () => zoom(.5), out: () => zoom(2), left: () => pan(-.25), right: () => pan(.25),
    all: () => setRange(...full),
  };
  const keys = {
    "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all",
  };

  const steps = uPlot.paths.stepped({ align: 1 });
  const uSeries = (item) => ({
    label: item.label,
    show: item.shown,
    stroke: item.color,
    width: 1.6,
    dash: item.dash || [],
    paths: item.kind === "step" ? steps : undefined,
    points: { show: false },
  });
  const axis = { font: "12px system-ui, sans-serif", stroke: "#333", grid: { stroke: "#e4e4e4", width: 1 },
    ticks: { stroke: "#999", width: 1 } };

  const create = (host, column, panel) => {
    const plot = { panel, y: [0, 1] };
    // uPlot draws lines; dots may have several values at a time and are drawn with the marks.
    const lines = panel.series.filter((s) => s.kind !== "dots");
    const tables = lines.map((s) => [Array.from(s.t), Array.from(s.v, (x) => (Number.isNaN(x) ? null : x))]);
    const joined = tables.length ? uPlot.join(tables) : [[data.start, data.end], [null, null]];
    const sizes = { timeline: 235, sequence: 330, shares: 84 };
    const height = sizes[panel.shares ? "shares" : panel.key] || sizes.timeline;
    const chart = host.querySelector(".chart");
    plot.readout = host.querySelector(".readout");
    plot.host = host;
    plot.height = height;
    plot.u = new uPlot({
      width: host.clientWidth, height, legend: { show: false },
      padding: [8, 14, 0, 0],
      cursor: { sync: { key: "time", scales: ["x", null] }, y: false,
        drag: { x: true, y: false, setScale: false }, points: { show: false } },
      scales: {
        x: { time: false, auto: false, range: () => range },
        y: { auto: false, range: () => plot.y },
      },
      axes: [
        { ...axis, size: 30, space: 70,
          values: (u, ticks) => ticks.map((x, i) => `${Number(x.toFixed(7))}${i === ticks.length - 1 ? " s" : ""}`) },
        panel.shares
          ? { ...axis, size: 52, splits: () => [0, 1], values: () => ["0", "100 %"] }
          : { ...axis, size: 52, space: 36,
            ...(COUNTS.has(panel.unit) ? { incrs: WHOLE } : {}), values: (u, ticks) => ticks.map((x) => String(Number(x.toPrecision(9)))) },
      ],
      series: [{}, ...(tables.length ? lines.map(uSeries) : [{ show: false }])],
      hooks: {
        drawClear: [(u) => spans(u, column)],
        draw: [(u) => (panel.shares ? drawShares(u, panel.shares) : marksOf(u, panel))],
        setCursor: [() => readout(plot)],
        setSelect: [(u) => {
          const { left, width } = u.select;
          if (width < 4) return;
          const low = u.posToVal(left, "x"), high = u.posToVal(left + width, "x");
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (host.matches(":hover")) queueMicrotask(() => setRange(low, high));
        }],
      },
    }, joined, chart);
    plots.push(plot);
    chart.tabIndex = 0;
    chart.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      commands[keys[event.key]]();
    });
    chart.addEventListener("dblclick", () => setRange(...full));
    return plot;
  };

  const legend = (host, panel, plot) => {
    const list = host.querySelector(".legend");
    const items = panel.shares ? panel.shares.rows.map((r) => ({ ...r, kind: "fill" })) : [...panel.series, ...panel.marks];
    items.forEach((item) => {
      const element = document.createElement(panel.shares ? "span" : "button");
      element.append(swatch(item), document.createTextNode(item.label));
      list.append(element);
      if (panel.shares) { element.className = "key"; return; }
      element.type = "button";
      element.setAttribute("aria-pressed", String(item.shown));
      element.addEventListener("click", () => {
        item.shown = !item.shown;
        element.setAttribute("aria-pressed", String(item.shown));
        const line = panel.series.filter((s) => s.kind !== "dots").indexOf(item);
        if (line >= 0) plot.u.setSeries(line + 1, { show: item.shown });
        setRange(...range);
        plot.u.redraw();
      });
    });
  };

  data.columns.forEach((column, c) => {
    for (const panel of column.panels) {
      for (const item of [...panel.series, ...panel.marks]) {
        item.t = times(item.t);
        item.v = values(item.v);
        if (item.e) item.e = values(item.e);
      }
      if (panel.shares) panel.shares.rows.forEach((row) => { row.v = values(row.v); });
      const host = document.getElementById(`panel-${c}-${panel.key}`);
      legend(host, panel, create(host, column, panel));
    }
  });
  setRange(...full);

  for (const button of document.querySelectorAll("[data-command]")) {
    button.addEventListener("click", () => commands[button.dataset.command]());
  }
  for (const button of document.querySelectorAll("[data-stall]")) {
    button.addEventListener("click", () => {
      const [c, i] = button.dataset.stall.split(" ").map(Number);
      const [start, end] = data.columns[c].stalls[i];
      const room = Math.max((end - start) * .6, .02);
      setRange(start - room, end + room);
      document.getElementById(`panel-${c}-windows`).scrollIntoView({ block: "nearest" });
    });
  }
  const fit = () => plots.forEach((p) => p.u.setSize({ width: p.host.clientWidth, height: p.height }));
  new ResizeObserver(fit).observe(document.querySelector(".charts"));
  window.addEventListener("beforeprint", () => {
    // A4 and Letter have about 700 px between their margins.
    const width = data.columns.length === 2 ? 335 : 680;
    plots.forEach((p) => p.u.setSize({ width, height: p.height }));
  });
  window.addEventListener("afterprint", fit);
  document.documentElement.dataset.ready = "true";
})();
