"use strict";
(() => {
  const { $, el, css, digits, axis, decades } = AW;
  const D = JSON.parse($("data").textContent);
  const PALETTE = ["#2f7de1", "#ea7317", "#0e9f6e", "#d6336c", "#8b5cf6", "#c29a0b", "#0aa5c2",
    "#db5ad5", "#6b9e1f", "#7c8798", "#a16207", "#4f46e5", "#be185d", "#15803d", "#b45309", "#475569"];

  // --- numbers in their units
  const scaled = (v, steps) => {
    const [from, unit] = steps.find(([least]) => Math.abs(v) >= least) || steps[steps.length - 1];
    return digits(v / from) + unit;
  };
  const time = (v) => {
    if (v === 0) return "0 s";
    if (Math.abs(v) < 60) return scaled(v, [[1, " s"], [1e-3, " ms"], [1e-6, " µs"], [1e-9, " ns"]]);
    const s = Math.round(v);
    return s < 3600 ? Math.floor(s / 60) + " min " + (s % 60) + " s" : Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  };
  const compact = (v, n) => v.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: n || 3 });
  const count = (v) => (Math.abs(v) >= 1e4 ? compact(v) : digits(v, 4));
  const UNIT = {
    plain: (v) => digits(v), count, share: (v) => digits(100 * v) + " %", times: (v) => digits(v) + "×", seconds: time,
    bytes: (v) => scaled(v, [[2 ** 30, " GiB"], [2 ** 20, " MiB"], [1024, " KiB"], [1, " B"]]),
  };
  const tell = (unit, v) => (v == null ? "–" : UNIT[unit](v));

  // --- what it stands on
  const stands = ["Scale " + D.scale, "preset " + D.preset];
  if (D.apps) stands.push(D.apps + " applications");
  if (D.seeds) stands.push(D.seeds + (D.seeds === 1 ? " seed" : " seeds"));
  stands.push("load " + D.load, "pool " + D.pool, "source " + D.source);
  $("about").textContent = "Shows " + D.shows + ". " + stands.join(", ") + ".";
  $("command").textContent = D.command;

  // --- figures, with the paper's beside them
  const SVG = "http://www.w3.org/2000/svg";
  const shape = (kind, at) => {
    const e = document.createElementNS(SVG, kind);
    for (const key of Object.keys(at)) e.setAttribute(key, at[key]);
    return e;
  };
  function span(f) {
    const ends = f.interval_95 || [null, null];
    const all = [f.value, f.paper, f.goal, ...ends].filter((v) => v != null);
    const td = el("td", { className: "span" });
    if (all.length < 2) return td;
    // Ratios far apart are read on a log scale; everything else from 0 on.
    const log = f.unit === "times" && Math.min(...all) > 0 && Math.max(...all) / Math.min(...all) > 20;
    const of = (v) => (log ? Math.log(v) : v);
    const lo = log ? of(Math.min(1, ...all)) : Math.min(0, ...all), hi = log ? of(Math.max(1, ...all)) : Math.max(0, ...all);
    const x = (v) => 4 + 92 * (hi > lo ? (of(v) - lo) / (hi - lo) : 0.5) + "%";
    const svg = shape("svg", { role: "img", "aria-label": "here " + tell(f.unit, f.value) + ", paper " + tell(f.unit, f.paper) + ", goal " + tell(f.unit, f.goal) });
    svg.append(shape("line", { x1: "4%", x2: "96%", y1: "50%", y2: "50%", stroke: "var(--line)" }));
    if (ends[0] != null && ends[1] != null)
      svg.append(shape("line", { x1: x(ends[0]), x2: x(ends[1]), y1: "50%", y2: "50%", stroke: PALETTE[0], "stroke-width": 6, "stroke-opacity": 0.4, "stroke-linecap": "round" }));
    if (f.goal != null)
      svg.append(shape("line", { x1: x(f.goal), x2: x(f.goal), y1: "15%", y2: "85%", stroke: "var(--best)", "stroke-width": 2 }));
    if (f.paper != null)
      svg.append(shape("circle", { cx: x(f.paper), cy: "50%", r: 4, fill: "var(--paper)", stroke: "var(--known)", "stroke-width": 2 }));
    if (f.value != null) svg.append(shape("circle", { cx: x(f.value), cy: "50%", r: 3.5, fill: PALETTE[0] }));
    td.append(svg);
    return td;
  }
  if (D.figures.length) {
    const table = $("figures").querySelector("table"), body = el("tbody");
    table.append(el("thead", {}, el("tr", {}, ...["", "Here", "95 %", "Paper", "Goal", "Met", ""].map((h) => el("th", { textContent: h })))));
    for (const f of D.figures) {
      const ends = f.interval_95;
      const met = f.met == null ? "–" : el("span", { className: f.met ? "met" : "missed", textContent: f.met ? "yes" : "no" });
      const cell = (head, known, props, ...kids) => {
        const td = el("td", props, ...kids);
        td.dataset.head = head; // on a phone it stands before the figure
        if (!known) td.classList.add("none");
        return td;
      };
      body.append(el("tr", {}, el("th", { scope: "row", textContent: f.name }), cell("Here", true, { textContent: tell(f.unit, f.value) }),
        cell("95 %", ends, { textContent: !ends ? "–" : tell(f.unit, ends[0]) + (ends[1] == null ? " or more" : " to " + tell(f.unit, ends[1])) }),
        cell("Paper", f.paper != null, { className: "paper", textContent: tell(f.unit, f.paper) }),
        cell("Goal", f.goal != null, { textContent: f.goal == null ? "–" : (f.goal_is === "at most" ? "≤ " : "≥ ") + tell(f.unit, f.goal) }),
        cell("Met", f.met != null, {}, met), span(f)));
    }
    table.append(body);
    $("key").hidden = !table.querySelector("svg");
    $("figures").hidden = false;
  }

  // --- tables: sorted by a click on a head
  function tableOf(t) {
    const body = el("tbody"), heads = [];
    const rows = t.rows.map((r) => el("tr", {}, el("th", { scope: "row", textContent: r.label }), ...r.values.map((v, c) => el("td", { textContent: tell(t.columns[c].unit, v) }))));
    const worth = (r, c) => (c < 0 ? r.label : r.values[c]);
    const order = (c, down) => {
      const index = t.rows.map((_, i) => i).sort((a, b) => {
        const x = worth(t.rows[a], c), y = worth(t.rows[b], c);
        if (x == null || y == null) return (x == null) - (y == null); // what is not known comes last
        const sign = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
        return down ? -sign : sign;
      });
      body.append(...index.map((i) => rows[i]));
      heads.forEach((h, k) => (k === c + 1 ? h.setAttribute("aria-sort", down ? "descending" : "ascending") : h.removeAttribute("aria-sort")));
    };
    [{ name: "" }, ...t.columns].forEach((column, k) => {
      const head = el("th", { scope: "col" }, el("button", { type: "button", textContent: column.name || "Row", title: "sort by it" }));
      head.firstChild.addEventListener("click", () => order(k - 1, head.getAttribute("aria-sort") === "descending" ? false : k > 0 || head.getAttribute("aria-sort") === "ascending"));
      heads.push(head);
    });
    body.append(...rows);
    return el("div", { className: "scroll" + (t.rows.length > 25 ? " long" : "") }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body));
  }
  for (const t of D.tables) {
    $("tables").append(el("details", { open: t.rows.length <= 25 }, el("summary", {}, t.title, el("span", { className: "tag", textContent: t.rows.length + (t.rows.length === 1 ? " row" : " rows") })), tableOf(t)));
    $("tables").hidden = false;
  }
  for (const note of D.notes) {
    $("notes").querySelector("ul").append(el("li", { textContent: note }));
    $("notes").hidden = false;
  }

  // --- plots
  const finite = (v) => v != null && Number.isFinite(v);
  const fade = (color, share) => color + Math.round(255 * share).toString(16).padStart(2, "0");

  // All series on one axis of x: uPlot wants a row of values for each, with gaps where there are none.
  function aligned(plot) {
    const xs = [...new Set(plot.series.flatMap((s) => s.x.filter(finite)))].sort((a, b) => a - b);
    const at = new Map(xs.map((x, i) => [x, i]));
    const rows = plot.series.map((s) => {
      const row = { y: xs.map(() => undefined), low: xs.map(() => undefined), high: xs.map(() => undefined) };
      s.x.forEach((x, i) => {
        if (!finite(x)) return;
        row.y[at.get(x)] = s.y[i];
        if (s.low) row.low[at.get(x)] = s.low[i];
        if (s.high) row.high[at.get(x)] = s.high[i];
      });
      return row;
    });
    return { xs, rows };
  }

  // Every value that the plot has to have room for, of the series that are shown.
  function extent(plot, shown) {
    const all = plot.series.flatMap((s, k) => (shown[k] ? [...s.y, ...(s.low || []), ...(s.high || [])] : [])).filter(finite);
    let lo = Math.min(...all), hi = Math.max(...all);
    if (!all.length) return [0, 1];
    if (plot.log) return [lo / 1.3, hi * 1.3];
    if (plot.kind === "bars" || (lo > 0 && lo < 0.25 * hi)) lo = Math.min(0, lo);
    if (plot.kind === "bars") hi = Math.max(0, hi);
    const room = (hi - lo || Math.abs(hi) || 1) * 0.06;
    return [lo === 0 && plot.kind !== "dots" ? 0 : lo - room, hi === 0 ? 0 : hi + room]; // dots at 0 are seen whole
  }

  function tooltip(plot, rows, shown, colors, name) {
    const tip = el("div", { className: "tip" });
    const show = (u) => {
      const i = u.cursor.idx, left = u.cursor.left;
      if (i == null || left < 0 || !u.over.matches(":hover")) { tip.style.display = "none"; return; }
      const lines = [];
      rows.forEach((r, k) => {
        if (!shown[k] || !finite(r.y[i])) return;
        const band = finite(r.low[i]) && finite(r.high[i]) ? "  (" + digits(r.low[i]) + " to " + digits(r.high[i]) + ")" : "";
        lines.push(el("div", {}, el("span", {}, el("span", { className: "dot", style: "background:" + colors[k] }), plot.series[k].name), el("b", { textContent: digits(r.y[i]) + band })));
      });
      if (!lines.length) { tip.style.display = "none"; return; }
      tip.replaceChildren(el("b", { textContent: name(u.data[0][i]) }), ...lines);
      tip.style.display = "block";
      const wrap = u.over.getBoundingClientRect(), box = u.over.parentNode.parentNode.getBoundingClientRect();
      const x = wrap.left - box.left + left, w = tip.offsetWidth;
      tip.style.left = Math.max(4, Math.min(x + 14 + w > box.width ? x - w - 14 : x + 14, box.width - w - 4)) + "px";
      tip.style.top = wrap.top - box.top + 6 + "px";
    };
    return { hooks: { init: (u) => u.over.parentNode.parentNode.append(tip), setCursor: show } };
  }

  const clipped = (u, draw) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw(ctx, bbox, devicePixelRatio);
    ctx.restore();
  };
  const whisker = (ctx, x, low, high, wide) => {
    ctx.beginPath();
    ctx.moveTo(x, low);
    ctx.lineTo(x, high);
    for (const y of [low, high]) { ctx.moveTo(x - wide, y); ctx.lineTo(x + wide, y); }
    ctx.stroke();
  };

  // Behind the lines: the band of each. Runs of points that have both ends are one polygon.
  const bands = (rows, shown, colors) => ({
    hooks: { drawClear: (u) => clipped(u, (ctx, box, r) => rows.forEach((row, k) => {
      if (!shown[k]) return;
      let run = [];
      const flush = () => {
        if (run.length === 1) {
          ctx.strokeStyle = fade(colors[k], 0.5);
          ctx.lineWidth = 1.5 * r;
          whisker(ctx, u.valToPos(u.data[0][run[0]], "x", true), u.valToPos(row.low[run[0]], "y", true), u.valToPos(row.high[run[0]], "y", true), 3 * r);
        } else if (run.length) {
          ctx.fillStyle = fade(colors[k], 0.16);
          ctx.beginPath();
          for (const i of run) ctx.lineTo(u.valToPos(u.data[0][i], "x", true), u.valToPos(row.high[i], "y", true));
          for (const i of run.reverse()) ctx.lineTo(u.valToPos(u.data[0][i], "x", true), u.valToPos(row.low[i], "y", true));
          ctx.fill();
        }
        run = [];
      };
      row.y.forEach((y, i) => {
        if (y === undefined) return; // a point of another series
        if (finite(row.low[i]) && finite(row.high[i])) run.push(i);
        else flush();
      });
      flush();
    })) },
  });

  // Dots are drawn here and not by uPlot: several may share an x.
  const dots = (plot, shown, colors) => ({
    hooks: { draw: (u) => clipped(u, (ctx, box, r) => plot.series.forEach((s, k) => {
      if (!shown[k]) return;
      const size = (s.x.length > 400 ? 2 : s.x.length > 100 ? 2.6 : 3.6) * r;
      ctx.strokeStyle = fade(colors[k], 0.55);
      ctx.fillStyle = fade(colors[k], s.x.length > 100 ? 0.6 : 0.85);
      ctx.lineWidth = r;
      s.x.forEach((x, i) => {
        if (!finite(x) || !finite(s.y[i])) return;
        const px = u.valToPos(x, "x", true);
        if (s.low && finite(s.low[i]) && finite(s.high[i])) whisker(ctx, px, u.valToPos(s.low[i], "y", true), u.valToPos(s.high[i], "y", true), 3 * r);
        ctx.beginPath();
        ctx.arc(px, u.valToPos(s.y[i], "y", true), size, 0, 7);
        ctx.fill();
      });
    })) },
  });

  // Bars beside each other in groups: one group for each x, one bar for each series that is shown.
  const bars = (rows, shown, colors, step) => ({
    hooks: { draw: (u) => clipped(u, (ctx, box, r) => {
      const some = rows.map((_, k) => k).filter((k) => shown[k]);
      const group = Math.abs(u.valToPos(step, "x", true) - u.valToPos(0, "x", true)) * 0.78;
      const wide = Math.min(group / Math.max(1, some.length), 64 * r), zero = u.valToPos(0, "y", true);
      some.forEach((k, n) => rows[k].y.forEach((y, i) => {
        if (!finite(y)) return;
        const mid = u.valToPos(u.data[0][i], "x", true) + (n - (some.length - 1) / 2) * wide;
        const top = u.valToPos(y, "y", true);
        ctx.fillStyle = fade(colors[k], 0.8);
        ctx.fillRect(mid - 0.45 * wide, Math.min(top, zero), 0.9 * wide, Math.max(Math.abs(zero - top), r));
        if (!finite(rows[k].low[i]) || !finite(rows[k].high[i])) return;
        ctx.strokeStyle = css("--ink");
        ctx.lineWidth = 1.25 * r;
        whisker(ctx, mid, u.valToPos(rows[k].low[i], "y", true), u.valToPos(rows[k].high[i], "y", true), Math.min(0.22 * wide, 5 * r));
      }));
    }) },
  });

  const built = [];
  function draw(plot, box, shown) {
    const { xs, rows } = aligned(plot), colors = plot.series.map((_, k) => PALETTE[k % PALETTE.length]);
    const bar = plot.kind === "bars", dot = plot.kind === "dots";
    const gaps = xs.slice(1).map((x, i) => x - xs[i]);
    const step = gaps.length ? Math.min(...gaps) : 1;
    const lo = xs[0], hi = xs[xs.length - 1];
    const margin = bar ? 0.55 * step : hi === lo ? 1 : dot ? 0.03 * (hi - lo) : 0;
    const all = [lo - margin, hi + margin];
    const values = (u, ticks) => ticks.map((v) => (v == null ? "" : Math.abs(v) >= 1e5 ? compact(v, 5) : digits(v, 5)));
    const words = new Map(plot.labels.map((l) => [l.x, l.text]));
    const whole = xs.every(Number.isInteger);
    const name = (x) => words.get(x) || plot.x + " " + digits(x, 5);
    const plugins = [tooltip(plot, rows, shown, colors, name)];
    if (bar) plugins.push(bars(rows, shown, colors, step));
    else if (dot) plugins.push(dots(plot, shown, colors));
    else plugins.push(bands(rows, shown, colors));
    const width = Math.max(200, box.clientWidth - 22);
    const logs = (key) => (plot.log ? { splits: (u) => { const { min, max } = u.scales[key]; return decades(min, max, max / min > 300); }, filter: (u, ticks) => ticks } : {});
    const marks = words.size ? [...words.keys()] : xs;
    // words that do not fit beside each other slant; then they need room below, and left of the first
    const longest = 6.5 * Math.max(0, ...[...words.values()].map((w) => w.length)), room = (width - 70) / Math.max(1, words.size);
    const crowded = longest + 8 > room;
    const below = crowded ? Math.round(longest * 0.54 + 18) : 30, left = crowded ? Math.max(52, Math.round(longest * 0.86 - room / 2 + 8)) : 52;
    return new uPlot({
      width, height: Math.round(Math.min(340, Math.max(230, width * 0.55))), legend: { show: false }, padding: [10, 14, 0, 0], plugins,
      cursor: { points: { show: !bar && !dot, size: 6 }, drag: { x: true, y: false }, y: false },
      scales: { x: { time: false, range: (u, min, max) => (min == null || (min <= lo && max >= hi) ? all : [min, max]), distr: plot.log ? 3 : 1 }, y: { distr: plot.log ? 3 : 1, range: () => extent(plot, shown) } },
      series: [{}, ...plot.series.map((s, k) => ({
        show: shown[k], stroke: bar || dot ? "transparent" : colors[k], width: 1.8, spanGaps: false,
        paths: bar || dot ? () => null : undefined, points: bar || dot ? { show: false } : { show: s.x.length === 1 ? true : undefined, size: 5 },
      }))],
      axes: [
        axis({ label: plot.x || undefined, size: below, rotate: crowded ? 32 : 0, values: words.size ? (u, t) => t.map((x) => words.get(x) || "") : values,
          splits: bar || words.size ? (u) => marks.filter((x) => x >= u.scales.x.min && x <= u.scales.x.max) : undefined, incrs: !bar && whole ? [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000, 1e5, 1e6] : undefined, space: 50,
          grid: bar ? { show: false } : { stroke: () => css("--grid"), width: 1 }, ...logs("x") }),
        axis({ size: left, values, space: 30, ...logs("y") }),
      ],
    }, [xs, ...rows.map((r) => r.y)], box);
  }

  D.plots.forEach((plot) => {
    const box = el("div", { className: "plot" }, el("div", { className: "head" }, el("h3", { textContent: plot.title }), el("span", { textContent: plot.y })));
    $("plots").querySelector(".grid").append(box);
    $("plots").hidden = false;
    if (!plot.series.some((s) => s.y.some(finite))) {
      box.append(el("p", { className: "empty", textContent: "nothing to show" }));
      return;
    }
    const shown = plot.series.map(() => true), entry = { plot: null, make: () => draw(plot, box, shown) };
    if (plot.series.length > 1 || plot.series[0].name) {
      const chips = el("div", { className: "chips", role: "group" });
      chips.setAttribute("aria-label", "series shown");
      plot.series.forEach((s, k) => {
        const chip = el("button", { type: "button" }, el("span", { className: "dot", style: "background:" + PALETTE[k % PALETTE.length] }), s.name || "series " + (k + 1));
        chip.setAttribute("aria-pressed", "true");
        chip.addEventListener("click", () => {
          if (shown[k] && shown.filter(Boolean).length === 1) return;
          shown[k] = !shown[k];
          chip.setAttribute("aria-pressed", String(shown[k]));
          build([entry]);
        });
        chips.append(chip);
      });
      box.append(chips);
    }
    built.push(entry);
  });

  function build(some) {
    for (const entry of some) {
      if (entry.plot) entry.plot.destroy();
      entry.plot = entry.make();
    }
  }
  build(built);
  let waiting, last = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === last) return;
    last = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => build(built), 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => build(built));
})();
