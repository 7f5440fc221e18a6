"use strict";
(() => {
  const { $, el, css, digits, ms, gib, cores, share, plain, clock, axis, decades, NICE } = AW;
  const D = JSON.parse($("data").textContent);
  const STAGES = ["initialized", "offline", "online", "serving"];
  const stageColor = (i) => css("--" + STAGES[i]);
  const KIND = ["stage", "trip", "scenario", "scenario"];
  const eventColor = (e) => (e.kind === 0 ? stageColor(e.to) : css("--" + KIND[e.kind]));
  const W = D.workloads;
  const WORLDS = D.twin ? [0, 1] : [0];
  const WORLD = ["AWARE", D.fallback + " alone"];
  const worldColor = (w) => css(w ? "--twin" : "--aware");
  const ratio = (a, b) => (b > 0 ? a / b : null);
  const times = (v) => (v == null ? "–" : v.toFixed(2) + "×");

  $("about").textContent = D.about;

  // --- what it came to
  const [own, twin] = D.all.whole;
  const tile = (label, value, note, kind) => $("tiles").append(el("div", { className: kind }, el("span", { textContent: label }), el("strong", { textContent: value }), el("span", { textContent: note })));
  const saved = D.twin && twin.cost > 0 ? twin.cost - own.cost : null, missed = own.steps ? own.missed / own.steps : 0;
  const perDay = (t) => digits(t.steps ? (86400 * t.changes) / (t.steps * D.step_s) : 0);
  if (saved == null) tile("Spent", "$" + digits(own.cost), "nothing ran beside it to compare with", "");
  else tile(saved < 0 ? "Spent more" : "Saved", "$" + digits(Math.abs(saved)) + " (" + (100 * Math.abs(saved) / twin.cost).toFixed(1) + " %)", "$" + digits(own.cost) + " spent, $" + digits(twin.cost) + " by " + WORLD[1], saved < 0 ? "bad" : "good");
  tile("Missed against the budget", (100 * missed).toFixed(2) + " % of " + digits(100 * D.budget) + " %", "of steps missed the SLO" + (D.twin && twin.steps ? "; " + WORLD[1] + " " + (100 * twin.missed / twin.steps).toFixed(2) + " %" : ""), missed > D.budget ? "bad" : "good");
  const soon = (t) => (t.back ? digits(t.back) + " removed within 5 minutes of being added" : "none removed within 5 minutes of being added");
  tile("Changes per day", perDay(own), "of the number of replicas, per workload, " + soon(own) + (D.twin ? "; " + WORLD[1] + " " + perDay(twin) : ""), "");

  // --- what the colours mean
  const key = $("key");
  const mark = (sign, text) => key.append(el("span", { className: "mark" }, sign, text));
  for (const w of WORLDS) mark(el("span", { className: "line", style: "color:var(" + (w ? "--twin" : "--aware") + ")" }), WORLD[w]);
  for (const s of [1, 2, 3]) mark(el("span", { className: "swatch", style: "background:var(--" + STAGES[s] + ")" }), STAGES[s]);
  mark(el("span", { className: "line", style: "color:var(--trip)" }), "watchdog");
  if (D.events.some((e) => e.kind > 1)) mark(el("span", { className: "line", style: "color:var(--scenario)" }), "disturbance");

  // --- summary
  const table = $("summary");
  const HEADS = D.twin
    ? ["", "Stage", "Serving at", "Cost", "once served", "SLO missed", "once served", "Changes per day", "Taken back", "Reward", "CPU used", "Memory used", "Watchdog"]
    : ["", "Stage", "Serving at", "Cost", "SLO missed", "Changes per day", "Taken back", "Reward", "CPU used", "Memory used", "Watchdog"];
  table.append(el("thead", {}, el("tr", {}, ...HEADS.map((h) => el("th", { textContent: h })))));
  const body = el("tbody");
  const per = (t, k) => (t.steps ? t[k] / t.steps : null);
  const both = (t, k, scale, unit) => (D.twin ? digits(scale * (per(t[0], k) || 0)) + " / " + digits(scale * (per(t[1], k) || 0)) : digits(scale * (per(t[0], k) || 0))) + unit;
  const judge = (td, better, worse) => { td.className = better ? "better" : worse ? "worse" : ""; return td; };
  const costCell = (t) => { const r = ratio(t[0].cost, t[1].cost); return judge(el("td", { textContent: D.twin ? times(r) : "$" + digits(t[0].cost) }), r != null && r < 0.995, r != null && r > 1.005); };
  const missedCell = (t) => (t[0].steps ? judge(el("td", { textContent: both(t, "missed", 100, " %") }), D.twin && t[0].missed < t[1].missed, D.twin && t[0].missed > t[1].missed) : el("td", { textContent: "–" }));
  const row = (r) => {
    const tr = el("tr", {}, el("th", { textContent: r.name }), el("td", {}, r.stage == null ? r.served : el("span", { className: "badge", style: "background:var(--" + STAGES[r.stage] + ")", textContent: STAGES[r.stage] })),
      el("td", { textContent: r.serving_s == null ? "–" : clock(r.serving_s) }), costCell(r.whole));
    if (D.twin) tr.append(costCell(r.after));
    tr.append(missedCell(r.whole));
    if (D.twin) tr.append(missedCell(r.after));
    const pair = (f) => f(r.whole[0]) + (D.twin ? " / " + f(r.whole[1]) : "");
    tr.append(el("td", { textContent: pair(perDay) }), el("td", { textContent: pair((t) => digits(t.back)) }));
    tr.append(el("td", { textContent: both(r.whole, "reward", r.episode_steps, "") }), el("td", { textContent: both(r.whole, "ucpu", 100, " %") }), el("td", { textContent: both(r.whole, "umem", 100, " %") }), el("td", { textContent: String(r.trips) }));
    body.append(tr);
  };
  W.forEach(row);
  if (W.length > 1) row(D.all);
  table.append(body);
  for (const words of D.words) $("words").append(el("li", { textContent: words }));

  // --- events
  const events = $("events");
  events.append(el("thead", {}, el("tr", {}, ...["Time", "Workload", "What"].map((t) => el("th", { textContent: t })))));
  const list = el("tbody");
  for (const e of D.events) {
    list.append(el("tr", {}, el("td", { textContent: clock(e.t) }), el("td", {}, el("span", { className: "dot", style: "background:" + (e.kind === 0 ? "var(--" + STAGES[e.to] + ")" : "var(--" + KIND[e.kind] + ")") }), e.w < W.length ? W[e.w].name : "cluster"), el("td", { textContent: e.text })));
  }
  events.append(list);

  // --- plots
  const sync = uPlot.sync("time");
  const plots = [];
  let range = null;
  const zoomed = (u, k) => {
    if (k !== "x" || u.quiet) return;
    const { min, max } = u.scales.x;
    if (range && range[0] === min && range[1] === max) return;
    range = [min, max];
    for (const o of plots) if (o !== u) { o.quiet = true; o.setScale("x", { min, max }); o.quiet = false; }
  };
  const stepped = uPlot.paths.stepped({ align: -1 });

  // Bands by stage behind everything, lines where something happened in front.
  function context(k) {
    const mine = D.events.filter((e) => k == null ? false : e.w === k || e.w >= W.length);
    return {
      mine,
      hooks: {
        drawClear: (u) => {
          if (k == null) return;
          const { ctx, bbox } = u, p = W[k];
          ctx.save();
          ctx.beginPath();
          ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
          ctx.clip();
          ctx.globalAlpha = 0.1;
          for (let i = 0, n; i < p.stages.length; i = n) {
            for (n = i; n < p.stages.length && p.stages[n] === p.stages[i]; n++);
            const a = u.valToPos(i ? p.t[i - 1] : 0, "x", true), b = u.valToPos(p.t[n - 1], "x", true);
            ctx.fillStyle = stageColor(p.stages[i]);
            ctx.fillRect(a, bbox.top, b - a, bbox.height);
          }
          ctx.restore();
        },
        draw: (u) => {
          const { ctx, bbox } = u, r = devicePixelRatio;
          ctx.save();
          ctx.beginPath();
          ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
          ctx.clip();
          ctx.lineWidth = r;
          for (const e of mine) {
            const x = Math.round(u.valToPos(e.t, "x", true));
            ctx.strokeStyle = eventColor(e);
            ctx.globalAlpha = 0.75;
            ctx.setLineDash(e.kind === 0 ? [] : [4 * r, 3 * r]);
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
          }
          ctx.restore();
        },
      },
    };
  }

  function tooltip(t, rows, near) {
    const tip = el("div", { className: "tip" });
    return {
      hooks: {
        init: (u) => u.over.parentNode.parentNode.append(tip),
        setCursor: (u) => {
          const i = u.cursor.idx, left = u.cursor.left;
          if (i == null || left < 0 || !u.over.matches(":hover")) { tip.style.display = "none"; return; }
          tip.replaceChildren(el("b", { textContent: clock(t[i]) }));
          for (const [color, name, text] of rows(i)) tip.append(el("div", {}, el("span", {}, el("span", { className: "dot", style: "background:" + color }), name), el("b", { textContent: text })));
          for (const e of near) if (Math.abs(u.valToPos(e.t, "x") - left) < 8) tip.append(el("span", { className: "event", textContent: clock(e.t) + "  " + e.text }));
          tip.style.display = "block";
          const wrap = u.over.getBoundingClientRect(), box = u.over.parentNode.parentNode.getBoundingClientRect();
          const x = wrap.left - box.left + left, w = tip.offsetWidth;
          tip.style.left = Math.max(4, Math.min(x + 14 + w > box.width ? x - w - 14 : x + 14, box.width - w - 4)) + "px";
          tip.style.top = wrap.top - box.top + 6 + "px";
        },
      },
    };
  }

  function plot(box, t, series, y, height, plugins, log) {
    const width = box.clientWidth - 22;
    const values = (u, ticks) => ticks.map((v) => (v == null ? "" : digits(v)));
    const u = new uPlot({
      width, height, legend: { show: false }, padding: [8, 12, 0, 0],
      cursor: { sync: { key: sync.key, setSeries: false }, points: { size: 6 }, drag: { x: true, y: false }, y: false },
      scales: { x: { time: false }, y },
      series: [{}, ...series.map((s) => Object.assign({ width: 1.6, points: { show: false } }, s.style))],
      axes: [axis({ values: (v, ticks) => ticks.map(clock), incrs: NICE, space: 70, size: 30 }),
        axis({ size: 52, values, space: 28, splits: log ? (v) => decades(v.scales.y.min, v.scales.y.max, v.scales.y.max / v.scales.y.min > 300) : undefined, filter: log ? (v, ticks) => ticks : undefined })],
      plugins, hooks: { setScale: [zoomed] },
    }, [t, ...series.map((s) => s.data)], box);
    if (range) { u.quiet = true; u.setScale("x", { min: range[0], max: range[1] }); u.quiet = false; }
    plots.push(u);
    return u;
  }

  const zero = { range: (u, lo, hi) => [0, (hi > 0 ? hi : 1) * 1.08] };
  const card = (parent, title, unit, wide) => {
    const box = el("div", { className: "plot" + (wide ? " wide" : "") }, el("div", { className: "head" }, el("h3", { textContent: title }), el("span", { textContent: unit })));
    parent.append(box);
    return box;
  };

  // The first plot: the mean over workloads, episode by episode, and a row of stages for each.
  function first() {
    $("first").replaceChildren();
    const n = Math.max(0, ...W.map((w) => w.ep.t.length));
    if (n === 0) { $("first").append(el("p", { className: "quiet", textContent: "No episode has ended yet." })); return; }
    const t = [], means = WORLDS.map(() => []);
    for (let i = 0; i < n; i++) {
      const have = W.filter((w) => i < w.ep.t.length);
      t.push(have.reduce((a, w) => a + w.ep.t[i], 0) / have.length);
      for (const k of WORLDS) means[k].push(have.reduce((a, w) => a + w.ep.reward[k][i], 0) / have.length);
    }
    const box = card($("first"), "Mean reward of an episode", D.twin ? "AWARE against " + WORLD[1] + " on the same load" : "");
    const strip = Math.min(12, Math.max(3, 120 / W.length));
    const below = Math.round(strip * W.length + 8);
    const rows = {
      hooks: {
        draw: (u) => {
          const { ctx, bbox } = u, r = devicePixelRatio;
          ctx.save();
          ctx.beginPath();
          ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
          ctx.clip();
          W.forEach((w, k) => {
            const y = bbox.top + bbox.height - (W.length - k) * strip * r;
            for (let i = 0; i < w.ep.t.length; i++) {
              const a = u.valToPos(i ? w.ep.t[i - 1] : 0, "x", true), b = u.valToPos(w.ep.t[i], "x", true);
              ctx.globalAlpha = 0.85;
              ctx.fillStyle = stageColor(w.ep.stage[i]);
              ctx.fillRect(a, y, Math.max(1, b - a - r * 0.5), (strip - 1.5) * r);
            }
            if (strip < 9) return; // too many rows to name: hovering names them
            ctx.globalAlpha = 1;
            ctx.font = "600 " + 9 * r + "px system-ui, sans-serif";
            ctx.textBaseline = "middle";
            ctx.fillStyle = css("--paper");
            ctx.fillText(w.name, bbox.left + 4 * r, y + (strip * r) / 2);
          });
          ctx.restore();
        },
      },
    };
    const all = D.events.filter((e) => e.kind > 1);
    const y = { range: (u, lo, hi) => {
      const span = Math.max(hi - lo, 1), height = u.bbox.height / devicePixelRatio || 300;
      return [lo - span * 0.08 - (span * 1.2 * below) / Math.max(60, height - below), hi + span * 0.08];
    } };
    const around = context(null);
    around.mine.push(...all);
    plot(box, t, WORLDS.map((k) => ({ data: means[k], style: { stroke: worldColor(k), width: k ? 1.6 : 2.4, dash: k ? [6, 4] : undefined } })),
      y, 250 + below, [around, rows, tooltip(t, (i) => [...WORLDS.map((k) => [worldColor(k), WORLD[k], plain(means[k][i])]),
        ...W.slice(0, 12).map((w) => [stageColor(w.ep.stage[Math.min(i, w.ep.stage.length - 1)]), w.name, i < w.ep.t.length ? plain(w.ep.reward[0][i]) : "–"])], all)]);
  }

  const SLO = (slo) => ({
    hooks: { draw: (u) => {
      if (!(slo > 0)) return;
      const y = Math.round(u.valToPos(slo, "y", true)), { ctx, bbox } = u, r = devicePixelRatio;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = css("--bad");
      ctx.lineWidth = 1.25 * r;
      ctx.setLineDash([6 * r, 4 * r]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.font = "600 " + 11 * r + "px system-ui, sans-serif";
      ctx.textAlign = "right";
      ctx.textBaseline = "bottom";
      ctx.fillText("SLO " + ms(slo), bbox.left + bbox.width - 6 * r, y - 3 * r);
      ctx.restore();
    } },
  });
  // Where the SLO was missed, a strip for each world at the bottom.
  const strips = (p) => ({
    hooks: { draw: (u) => {
      const { ctx, bbox } = u, r = devicePixelRatio;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      for (const w of WORLDS) {
        ctx.fillStyle = worldColor(w);
        const top = bbox.top + bbox.height - (WORLDS.length - w) * 6 * r;
        for (let i = 0; i < p.t.length; i++) {
          if (!p.missed[w][i]) continue;
          const a = u.valToPos(i ? p.t[i - 1] : 0, "x", true), b = u.valToPos(p.t[i], "x", true);
          ctx.fillRect(a, top, Math.max(b - a, r), 5 * r);
        }
      }
      ctx.restore();
    } },
  });

  function panels(k, grid) {
    const p = W[k], small = Math.max(...p.mem.flat()) < 2;
    grid.replaceChildren();
    const around = context(k);
    const lines = (rows, scale, step) => WORLDS.map((w) => ({
      data: scale === 1 ? rows[w] : rows[w].map((v) => (v == null ? null : v * scale)),
      style: { stroke: worldColor(w), width: w ? 1.2 : 1.7, paths: step ? stepped : undefined },
    })).reverse(); // AWARE above
    const told = (tell) => (i) => WORLDS.map((w) => [worldColor(w), WORLD[w], tell(w, i)]);
    const add = (title, unit, series, y, tell, extra, log, wide) => {
      const box = card(grid, title, unit, wide);
      plot(box, p.t, series, y, wide ? 210 : 150, [around, ...(extra || []), tooltip(p.t, tell, around.mine)], log);
    };
    const latency = {
      distr: 3,
      range: (u, lo, hi) => [Math.min(lo > 0 ? lo : 1, p.slo_ms || Infinity) * 0.5, Math.max(hi > 0 ? hi : 10, p.slo_ms || 0) * 1.4],
    };
    add("Latency", D.quantile + " in ms, log scale" + (p.stride > 1 ? ", the worst of " + p.stride + " steps" : "") + "; strips where the SLO was missed", lines(p.p99, 1), latency,
      told((w, i) => ms(p.p99[w][i]) + (p.missed[w][i] ? "  missed" : "")), [SLO(p.slo_ms), strips(p)], true, true);
    add("Load", "requests/s", [{ data: p.load, style: { stroke: css("--ink"), width: 1.2 } }], zero, (i) => [[css("--ink"), "load", plain(p.load[i]) + " /s"]]);
    add("Cost", "$ per hour", lines(p.cost, 1), zero, told((w, i) => "$" + digits(p.cost[w][i]) + " /h"));
    add("Replicas", "ready", lines(p.ready, 1, true), zero, told((w, i) => plain(p.ready[w][i]) + " of " + plain(p.wanted[w][i])));
    add("CPU limit", "cores per replica", lines(p.cpu, 1, true), zero, told((w, i) => cores(p.cpu[w][i])));
    add("Memory limit", (small ? "MiB" : "GiB") + " per replica", lines(p.mem, small ? 1024 : 1, true), zero, told((w, i) => gib(p.mem[w][i])));
    const percent = { range: [0, 100] };
    add("CPU used", "% of what is reserved", lines(p.ucpu, 100), percent, told((w, i) => share(p.ucpu[w][i])));
    add("Memory used", "% of what is reserved", lines(p.umem, 100), percent, told((w, i) => share(p.umem[w][i])));
    const e = p.ep;
    if (e.t.length > 1) {
      const box = card(grid, "Reward", "per episode; the axis does not begin at zero");
      plot(box, e.t, WORLDS.map((w) => ({ data: e.reward[w], style: { stroke: worldColor(w), width: w ? 1.2 : 1.7 } })).reverse(), { auto: true }, 150,
        [around, tooltip(e.t, (i) => WORLDS.map((w) => [worldColor(w), WORLD[w], plain(e.reward[w][i])]), around.mine)]);
    }
  }

  const holder = $("workloads"), built = [];
  W.forEach((p, k) => {
    if (!p.t.length) return;
    const grid = el("div", { className: "grid" });
    const cost = ratio(p.whole[0].cost, p.whole[1].cost);
    const box = el("details", { className: "workload" }, el("summary", {}, el("h3", { textContent: p.name }),
      el("span", { className: "badge", style: "background:var(--" + STAGES[p.stage] + ")", textContent: STAGES[p.stage] }),
      el("span", { className: "quiet", textContent: (cost == null ? "" : "cost " + times(cost) + ", ") + "SLO missed in " + both(p.whole, "missed", 100, " %") + " of steps" + (p.serving_s == null ? "" : ", serving since " + clock(p.serving_s)) })), grid);
    holder.append(box);
    const show = () => { if (box.open && !grid.firstChild) panels(k, grid); };
    box.addEventListener("toggle", show);
    built.push({ box, grid, show });
    if (W.length <= 12) { box.open = true; }
  });
  if (D.left_out) holder.append(el("p", { className: "quiet", textContent: D.left_out + " more workloads are in the summary alone." }));

  function build() {
    while (plots.length) plots.pop().destroy();
    first();
    for (const b of built) { b.grid.replaceChildren(); b.show(); }
  }
  build();
  let waiting, last = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === last) return;
    last = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(build, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
})();
