"use strict";
// Charts of a report: a metric by scheme, against a varied key, or against another metric.
(() => {
  const { svg, width, fit, format, ticks, logTicks, limits, scale, marker, interval } = Axes;
  // Places of the numbers of a cell.
  const [MEAN, LOW, HIGH, RATIO, RATIO_LOW, RATIO_HIGH, P, RUNS] = [0, 1, 2, 3, 4, 5, 6, 7];

  function html(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function percent(ratio) {
    const change = 100 * (ratio - 1);
    return `${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(1)}`;
  }

  const change = (cell) =>
    cell[RATIO] === null ? "–"
      : cell[RATIO_LOW] === null ? `${percent(cell[RATIO])} %`
        : `${percent(cell[RATIO])} % [${percent(cell[RATIO_LOW])}, ${percent(cell[RATIO_HIGH])}]`;
  const pText = (p) => (p === null ? "–" : p < 0.001 ? "<0.001" : p.toFixed(3));
  const span = (cell) =>
    cell[LOW] === null ? "–" : `[${format(cell[LOW])}, ${format(cell[HIGH])}]`;

  class Explorer {
    constructor(root, data) {
      this.root = root;
      this.data = data;
      this.hidden = new Set();
      this.y = data.first.y;
      this.x = data.first.x;
      this.held = data.keys.map(() => 0);
      this.controls = html("div", { class: "controls" });
      this.legend = html("div", { class: "legend", role: "group", "aria-label": "schemes" });
      this.plot = html("div", { class: "plot", tabindex: "0", role: "img" });
      this.readout = html("p", { class: "readout", "aria-live": "polite" });
      this.numbers = html("details");
      root.append(this.controls, this.legend, this.plot, this.readout, this.numbers);
      this.plot.addEventListener("pointermove", (event) => this.point(event));
      this.plot.addEventListener("pointerleave", () => this.select(-1));
      this.plot.addEventListener("keydown", (event) => this.key(event));
      this.buildControls();
      this.buildLegend();
      new ResizeObserver(() => {
        if (this.plot.clientWidth !== this.drawn) this.draw();
      }).observe(this.plot);
      this.update();
    }

    choice(name, options, chosen, changed) {
      const list = html("select");
      for (const [value, text] of options) {
        const option = html("option", { value }, text);
        option.selected = value === chosen;
        list.append(option);
      }
      list.addEventListener("change", () => changed(list.value));
      return html("label", {}, name, list);
    }

    buildControls() {
      const { data } = this;
      const metrics = data.metrics.map((m) => [m.key, m.label]);
      const axes = [["scheme", "scheme"], ...data.keys.map((k, i) => [`key ${i}`, k.label]), ...metrics];
      this.controls.replaceChildren(
        this.choice("show", metrics, this.y, (v) => { this.y = v; this.update(); }),
        this.choice("against", axes, this.x, (v) => { this.x = v; this.buildControls(); this.update(); }),
      );
      data.keys.forEach((key, i) => {
        if (this.x === `key ${i}` || key.values.length < 2) return;
        const options = key.values.map((v, n) => [String(n), v]);
        this.controls.append(this.choice(key.label, options, String(this.held[i]), (v) => {
          this.held[i] = Number(v);
          this.update();
        }));
      });
    }

    buildLegend() {
      const { data } = this;
      data.labels.forEach((label, i) => {
        const [colour, letter, dash] = data.styles[i];
        const key = svg("svg", { width: 26, height: 14, "aria-hidden": "true" },
          svg("line", { x1: 0, x2: 26, y1: 7, y2: 7, stroke: colour, "stroke-width": 2, "stroke-dasharray": dash }),
          marker(letter, 13, 7, colour));
        const button = html("button", { type: "button", "aria-pressed": "true" }, key, label);
        button.addEventListener("click", () => {
          this.hidden.has(i) ? this.hidden.delete(i) : this.hidden.add(i);
          button.setAttribute("aria-pressed", String(!this.hidden.has(i)));
          this.update();
        });
        this.legend.append(button);
      });
    }

    cell(metric, point, scheme) {
      return this.data.cells[metric][point * this.data.labels.length + scheme];
    }

    // Points with the chosen values of the keys that are not on the axis.
    slice() {
      const free = this.x.startsWith("key ") ? Number(this.x.slice(4)) : -1;
      return this.data.points
        .map((values, number) => ({ values, number }))
        .filter(({ values }) => values.every((v, i) => i === free || v === this.held[i]));
    }

    shown() {
      return this.data.labels.map((_, i) => i).filter((i) => !this.hidden.has(i));
    }

    label(metric) {
      return this.data.metrics.find((m) => m.key === metric).label;
    }

    update() {
      this.draw();
      this.list();
    }

    draw() {
      this.drawn = this.plot.clientWidth;
      this.marks = [];
      const total = Math.max(this.drawn, 240);
      const kind = this.x === "scheme" ? "dots" : this.x.startsWith("key ") ? "lines" : "scatter";
      this.picture = this[kind](total);
      this.plot.replaceChildren(this.picture);
      const against = kind === "scatter" ? this.label(this.x)
        : kind === "dots" ? "scheme" : this.data.keys[Number(this.x.slice(4))].label;
      this.plot.setAttribute("aria-label",
        `${this.label(this.y)} against ${against}, ${this.marks.length} values; arrow keys read them`);
      this.select(-1);
    }

    // Add a marker and what the line below the chart says of it.
    mark(group, x, y, scheme, cell, where) {
      const [colour, letter] = this.data.styles[scheme];
      group.append(marker(letter, x, y, colour));
      const several = this.data.labels.length > 1 && scheme > 0;
      const ci = cell[LOW] === null ? "" : `, 95 % CI ${span(cell)}`;
      const paired = several && cell[RATIO] !== null
        ? `, ${change(cell)} against ${this.data.labels[0]}, p ${pText(cell[P])}` : "";
      this.marks.push({ x, y, text:
        `${this.data.labels[scheme]}${where}: ${format(cell[MEAN])}${ci}, n = ${cell[RUNS]}${paired}` });
    }

    // Schemes below one another, with the metric along x.
    dots(total) {
      const [point] = this.slice(), schemes = this.shown();
      const row = 26, height = schemes.length * row + 66;
      const names = schemes.map((i) => fit(this.data.labels[i], 0.42 * total));
      const wide = Math.max(30, ...names.map((n) => width(n)));
      const box = { left: wide + 14, right: total - 24, top: 8, bottom: height - 46, total };
      const cells = schemes.map((i) => point && this.cell(this.y, point.number, i));
      const [low, high] = limits(cells.flatMap((c) => (c ? [c[MEAN], c[LOW], c[HIGH]] : [])));
      const x = scale(low, high, box.left, box.right);
      const values = ticks(low, high, Math.floor((box.right - box.left) / 80));
      const picture = this.frame(total, height);
      const places = values.map(x);
      picture.append(Axes.bottom(box, places, Axes.apart(places, values.map((v) => format(v))), this.label(this.y)));
      schemes.forEach((scheme, n) => {
        const y = box.top + (n + 0.5) * row, c = cells[n];
        picture.append(svg("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, names[n],
          svg("title", {}, this.data.labels[scheme])));
        if (!c) return;
        if (c[LOW] !== null) picture.append(interval(y, x(c[LOW]), x(c[HIGH]), this.data.styles[scheme][0], true));
        this.mark(picture, x(c[MEAN]), y, scheme, c, "");
      });
      return picture;
    }

    // The metric against a key: lines over numbers, markers over categories.
    lines(total) {
      const number = Number(this.x.slice(4)), key = this.data.keys[number];
      const schemes = this.shown(), points = this.slice();
      const found = (p, i) => this.cell(this.y, p.number, i);
      const all = points.flatMap((p) => schemes.map((i) => found(p, i)).filter(Boolean));
      const [low, high] = limits(all.flatMap((c) => [c[MEAN], c[LOW], c[HIGH]]));
      const height = total < 500 ? 300 : 360;
      const values = ticks(low, high, 6);
      const wide = Math.max(...values.map((v) => width(format(v))));
      const box = { left: wide + 14, right: total - 24, top: 28, bottom: height - 46, total };
      const y = scale(low, high, box.bottom, box.top);
      const numeric = key.places !== undefined;
      const places = numeric ? key.places : key.values.map((_, i) => i);
      let [first, last] = [Math.min(...places), Math.max(...places)];
      const log = numeric && first > 0 && last / first > 50;
      const edge = numeric ? 0.03 * (last - first) : 0.5;
      const x = log ? scale(first / 1.15, last * 1.15, box.left, box.right, true)
        : scale(first - edge || -0.5, last + edge || 0.5, box.left, box.right);
      const picture = this.frame(total, height);
      picture.append(this.keyAxis(box, key, places, x, log), Axes.left(box, values, y, this.label(this.y)));
      schemes.forEach((scheme, n) => {
        const aside = numeric ? 0 : (n - (schemes.length - 1) / 2) * Math.min(9, 60 / schemes.length);
        const drawn = points
          .map((p) => ({ c: found(p, scheme), at: x(places[p.values[number]]) + aside, value: key.values[p.values[number]] }))
          .filter(({ c }) => c)
          .sort((a, b) => a.at - b.at);
        const [colour, , dash] = this.data.styles[scheme];
        if (numeric) {
          picture.append(svg("polyline", { points: drawn.map(({ c, at }) => `${at},${y(c[MEAN])}`).join(" "),
            fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": dash }));
        }
        for (const { c, at, value } of drawn) {
          if (c[LOW] !== null) picture.append(interval(at, y(c[LOW]), y(c[HIGH]), colour));
          this.mark(picture, at, y(c[MEAN]), scheme, c, `, ${key.label} ${value}`);
        }
      });
      return picture;
    }

    keyAxis(box, key, places, x, log) {
      const title = key.unit ? `${key.label} (${key.unit})` : key.label;
      if (key.places === undefined) {
        const room = (box.right - box.left) / places.length - 6;
        return Axes.bottom(box, places.map(x), key.values.map((v) => fit(v, room)), title);
      }
      const [first, last] = [Math.min(...places), Math.max(...places)];
      const most = Math.floor((box.right - box.left) / 60);
      const values = places.length <= most && !log ? [...new Set(places)].sort((a, b) => a - b)
        : log ? logTicks(first, last, most) : ticks(first, last, most);
      const at = values.map(x);
      return Axes.bottom(box, at, Axes.apart(at, values.map((v) => format(v))), title);
    }

    // One metric against another, a marker per scheme.
    scatter(total) {
      const [point] = this.slice(), schemes = this.shown();
      const pairs = schemes
        .map((i) => ({ i, a: point && this.cell(this.x, point.number, i), b: point && this.cell(this.y, point.number, i) }))
        .filter(({ a, b }) => a && b);
      const ends = (cells) => limits(cells.flatMap((c) => [c[MEAN], c[LOW], c[HIGH]]));
      const [x0, x1] = ends(pairs.map((p) => p.a)), [y0, y1] = ends(pairs.map((p) => p.b));
      const height = total < 500 ? 320 : 400;
      const rows = ticks(y0, y1, 6);
      const wide = Math.max(...rows.map((v) => width(format(v))));
      const box = { left: wide + 14, right: total - 24, top: 28, bottom: height - 46, total };
      const x = scale(x0, x1, box.left, box.right), y = scale(y0, y1, box.bottom, box.top);
      const columns = ticks(x0, x1, Math.floor((box.right - box.left) / 80)), at = columns.map(x);
      const picture = this.frame(total, height);
      picture.append(Axes.bottom(box, at, Axes.apart(at, columns.map((v) => format(v))), this.label(this.x)),
        Axes.left(box, rows, y, this.label(this.y)));
      for (const { i, a, b } of pairs) {
        const colour = this.data.styles[i][0];
        if (a[LOW] !== null) picture.append(interval(y(b[MEAN]), x(a[LOW]), x(a[HIGH]), colour, true));
        if (b[LOW] !== null) picture.append(interval(x(a[MEAN]), y(b[LOW]), y(b[HIGH]), colour));
        this.mark(picture, x(a[MEAN]), y(b[MEAN]), i, b, ` at ${format(a[MEAN])}`);
      }
      return picture;
    }

    frame(total, height) {
      return svg("svg", { viewBox: `0 0 ${total} ${height}`, width: total, height, "aria-hidden": "true" });
    }

    // The values of the chart as a table.
    list() {
      const { data } = this, points = this.slice(), several = data.labels.length > 1;
      const head = [...data.keys.map((k) => k.label), "scheme", this.label(this.y), "95 % CI", "n"];
      if (several) head.push(`change against ${data.labels[0]}`, "p (Holm)");
      const texts = data.keys.length + 1;
      const row = (cells, name) => html("tr", {}, ...cells.map((c, i) =>
        html(name, i >= texts ? { class: "number" } : {}, c)));
      const body = html("tbody");
      for (const { values, number } of points) {
        for (const i of this.shown()) {
          const c = this.cell(this.y, number, i);
          if (!c) continue;
          const cells = [...values.map((v, k) => data.keys[k].values[v]), data.labels[i],
            format(c[MEAN]), span(c), String(c[RUNS])];
          if (several) cells.push(...(i ? [change(c), pText(c[P])] : ["", ""]));
          body.append(row(cells, "td"));
        }
      }
      const left = data.left_out ? html("p", { class: "soft" }, `${data.left_out} further metrics are in table.csv.`) : "";
      this.numbers.replaceChildren(html("summary", {}, "Values of this chart"),
        html("div", { class: "scroll" },
          html("table", { class: "explored" }, html("thead", {}, row(head, "th")), body)), left);
    }

    point(event) {
      const box = this.picture.getBoundingClientRect();
      const factor = this.picture.viewBox.baseVal.width / box.width;
      const [x, y] = [(event.clientX - box.left) * factor, (event.clientY - box.top) * factor];
      let best = -1, least = 30;
      this.marks.forEach((m, i) => {
        const distance = Math.hypot(m.x - x, m.y - y);
        if (distance < least) [best, least] = [i, distance];
      });
      if (best !== this.selected) this.select(best);
    }

    key(event) {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step || !this.marks.length) return;
      event.preventDefault();
      const start = this.selected < 0 && step < 0 ? 0 : this.selected;
      this.select((start + step + this.marks.length) % this.marks.length);
    }

    select(number) {
      this.selected = number;
      this.picture.querySelector(".ring")?.remove();
      const found = this.marks[number];
      this.readout.textContent = found ? found.text : "";
      if (found) {
        this.picture.append(svg("circle", { class: "ring", cx: found.x, cy: found.y, r: 9,
          fill: "none", stroke: "#1b1b1b", "stroke-width": 1.5 }));
      }
    }
  }

  const data = JSON.parse(document.getElementById("data").textContent);
  for (const root of document.querySelectorAll("[data-chart]")) {
    new Explorer(root, data[Number(root.dataset.chart)]);
  }
  document.documentElement.dataset.ready = "true";
})();
