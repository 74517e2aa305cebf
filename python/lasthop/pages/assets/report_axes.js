"use strict";
// Axes, marks and text of the charts of a report, as SVG.
const Axes = (() => {
  const NS = "http://www.w3.org/2000/svg";

  // An SVG element with attributes and children (elements or text).
  function svg(name, attributes = {}, ...children) {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== null && value !== "") node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  const canvas = document.createElement("canvas").getContext("2d");
  function width(text, size = 12) {
    canvas.font = `${size}px system-ui, "Segoe UI", Roboto, Arial, sans-serif`;
    return canvas.measureText(text).width * 1.06;
  }

  // The text, shortened to a width in pixels.
  function fit(text, most) {
    if (width(text) <= most) return text;
    let length = text.length;
    while (length > 1 && width(text.slice(0, length) + "…") > most) length--;
    return text.slice(0, length) + "…";
  }

  // A number with at most `digits` significant digits, with thin spaces between thousands.
  function format(x, digits = 4) {
    if (x === null || x === undefined) return "–";
    const size = Math.abs(x);
    if (x !== 0 && (size < 1e-4 || size >= 1e9)) return x.toExponential(digits - 1);
    const rounded = Number(x.toPrecision(digits));
    const [whole, rest] = String(rounded).replace("-", "−").split(".");
    const grouped = whole.length > 5 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u2009") : whole;
    return rest === undefined ? grouped : `${grouped}.${rest}`;
  }

  // Round places of an axis between low and high.
  function ticks(low, high, most) {
    const rough = (high - low) / Math.max(most, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
      found.push(Number((i * step).toPrecision(12)));
    }
    return found;
  }

  function logTicks(low, high, most) {
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
        for (const f of factors) {
          const at = Number((f * 10 ** p).toPrecision(12));
          if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
        }
      }
      if (found.length <= most + 1 || factors.length === 1) return found;
    }
    return [];
  }

  // Limits of a value axis: with zero unless all values are far from it.
  function limits(values) {
    const known = values.filter((v) => v !== null && Number.isFinite(v));
    if (!known.length) return [0, 1];
    let low = Math.min(...known), high = Math.max(...known);
    if (low >= 0 && low < 0.6 * high) low = 0;
    if (low === high) {
      const half = Math.abs(low) * 0.1 || 1;
      return [low < 0 ? low - half : Math.max(0, low - half), high + half];
    }
    const pad = 0.06 * (high - low);
    return [low === 0 ? 0 : low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
  }

  // A scale from values to pixels; `log` for a logarithmic one.
  function scale(low, high, from, to, log = false) {
    const f = log ? Math.log10 : (v) => v;
    const [a, b] = [f(low), f(high)];
    return (v) => from + ((f(v) - a) / (b - a || 1)) * (to - from);
  }

  // A marker, named by its letter as in matplotlib.
  function marker(letter, x, y, colour, r = 4.5) {
    const s = r * 0.9, t = r * 1.15;
    const polygon = (...points) =>
      svg("polygon", { points: points.map(([a, b]) => `${x + a},${y + b}`).join(" "), fill: colour });
    const plus = [[-0.4, -1], [0.4, -1], [0.4, -0.4], [1, -0.4], [1, 0.4], [0.4, 0.4], [0.4, 1],
      [-0.4, 1], [-0.4, 0.4], [-1, 0.4], [-1, -0.4], [-0.4, -0.4]];
    const turned = ([a, b]) => [(a - b) * 0.75 * r, (a + b) * 0.75 * r];
    const star = [...Array(10).keys()].map((i) => {
      const l = i % 2 ? 0.5 * r : 1.3 * r, angle = (i * Math.PI) / 5 - Math.PI / 2;
      return [l * Math.cos(angle), l * Math.sin(angle)];
    });
    switch (letter) {
      case "s": return svg("rect", { x: x - s, y: y - s, width: 2 * s, height: 2 * s, fill: colour });
      case "D": return polygon([0, -t], [t, 0], [0, t], [-t, 0]);
      case "^": return polygon([0, -t], [t, s], [-t, s]);
      case "v": return polygon([0, t], [t, -s], [-t, -s]);
      case "<": return polygon([-t, 0], [s, -t], [s, t]);
      case ">": return polygon([t, 0], [-s, -t], [-s, t]);
      case "P": return polygon(...plus.map(([a, b]) => [a * r, b * r]));
      case "X": return polygon(...plus.map(turned));
      case "*": return polygon(...star);
      default: return svg("circle", { cx: x, cy: y, r, fill: colour });
    }
  }

  // An interval with caps, along y or along x.
  function interval(at, low, high, colour, horizontal = false) {
    const d = horizontal
      ? `M${low} ${at - 4}v8M${low} ${at}H${high}M${high} ${at - 4}v8`
      : `M${at - 4} ${low}h8M${at} ${low}V${high}M${at - 4} ${high}h8`;
    return svg("path", { d, stroke: colour, "stroke-width": 1.4, fill: "none" });
  }

  // Horizontal axis at the bottom of `box`, with grid lines, labels and a title.
  function bottom(box, places, words, title) {
    const group = svg("g");
    places.forEach((x, i) => {
      group.append(
        svg("line", { class: "grid", x1: x, x2: x, y1: box.top, y2: box.bottom }),
        svg("text", { x, y: box.bottom + 16, "text-anchor": "middle" }, words[i]),
      );
    });
    const middle = (box.left + box.right) / 2, wide = width(title);
    const at = Math.min(Math.max(middle, wide / 2 + 2), Math.max(box.total - wide / 2 - 2, middle));
    group.append(
      svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
      svg("text", { x: at, y: box.bottom + 35, "text-anchor": "middle" }, fit(title, box.total - 8)),
    );
    return group;
  }

  // Vertical axis at the left of `box`; its title is above it.
  function left(box, values, y, title) {
    const group = svg("g");
    for (const value of values) {
      group.append(
        svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
        svg("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
      );
    }
    group.append(
      svg("line", { class: "axis", x1: box.left, x2: box.left, y1: box.top, y2: box.bottom }),
      svg("text", { x: 2, y: 14 }, fit(title, box.total - 8)),
    );
    return group;
  }

  // Those of the labels that do not overlap their neighbours.
  function apart(places, words) {
    let end = -Infinity;
    return words.map((word, i) => {
      const half = width(word) / 2;
      if (places[i] - half < end + 6) return "";
      end = places[i] + half;
      return word;
    });
  }

  return { svg, width, fit, format, ticks, logTicks, limits, scale, marker, interval, bottom, left,
    apart };
})();
