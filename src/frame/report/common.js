"use strict";
// What all pages share: elements, numbers as people write them, axes of plots.
const AW = (() => {
  const $ = (id) => document.getElementById(id);
  const el = (tag, props, ...kids) => {
    const e = Object.assign(document.createElement(tag), props || {});
    e.append(...kids);
    return e;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // --- numbers as people write them
  const digits = (v, n) => (v === 0 ? "0" : Number(v.toPrecision(n || 3)).toLocaleString("en-US", { maximumSignificantDigits: n || 3 }));
  const ms = (v) => (v == null ? "–" : v >= 60000 ? digits(v / 60000) + " min" : v >= 1000 ? digits(v / 1000) + " s" : v < 1 ? digits(v * 1000) + " µs" : digits(v) + " ms");
  const gib = (v) => (v == null ? "–" : v < 1 ? digits(v * 1024) + " MiB" : digits(v) + " GiB");
  const cores = (v) => (v == null ? "–" : digits(v) + (v === 1 ? " core" : " cores"));
  const share = (v) => (v == null ? "–" : digits(100 * v) + " %");
  const plain = (v) => (v == null ? "–" : digits(v));
  const clock = (s) => {
    const t = Math.round(s), h = Math.floor(t / 3600), m = Math.floor(t / 60) % 60, r = t % 60;
    return h + ":" + String(m).padStart(2, "0") + (r ? ":" + String(r).padStart(2, "0") : "");
  };

  const axis = (more) => Object.assign({
    stroke: () => css("--quiet"), grid: { stroke: () => css("--grid"), width: 1 },
    ticks: { stroke: () => css("--grid"), width: 1 }, font: "12px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif", labelSize: 20, gap: 4,
  }, more);

  // Ticks of a log scale: 1, 2 and 5 of every decade, or the decades alone.
  const decades = (lo, hi, sparse) => {
    const ticks = [];
    for (let e = Math.floor(Math.log10(lo)); e <= Math.log10(hi); e++)
      for (const m of sparse ? [1] : [1, 2, 5]) if (m * 10 ** e >= lo && m * 10 ** e <= hi) ticks.push(m * 10 ** e);
    return ticks;
  };

  const NICE = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

  return { $, el, css, digits, ms, gib, cores, share, plain, clock, axis, decades, NICE };
})();
