"use strict";
(() => {
  const { $, el, css, digits, ms, gib, cores, share, plain, clock, axis, decades, NICE } = AW;
  const D = JSON.parse($("data").textContent);
  const PALETTE = ["#2f7de1", "#ea7317", "#0e9f6e", "#d6336c", "#8b5cf6", "#c29a0b", "#0aa5c2",
    "#db5ad5", "#6b9e1f", "#7c8798", "#a16207", "#4f46e5", "#be185d", "#15803d", "#b45309", "#475569"];
  const P = D.policies.map((p, i) => Object.assign(p, { color: PALETTE[i % PALETTE.length], shown: true }));

  // --- summary
  const UNIT = { share, us: (v) => ms(v / 1000), h: plain, usd: (v) => "$" + digits(v), "": plain };
  const table = $("summary");
  const head = el("tr", {}, el("th", { textContent: "" }));
  for (const p of P) {
    const th = el("th", {}, el("span", { className: "dot", style: "background:" + p.color }), p.name);
    if (p.oracle) th.append(el("span", { className: "tag", textContent: " ceiling" }));
    head.append(th);
  }
  table.append(el("thead", {}, head));
  const body = el("tbody");
  D.columns.forEach((c, k) => {
    if (c.name === "violations_per_100") return; // the share says it
    const row = el("tr", {}, el("th", { textContent: c.text }));
    const able = P.filter((p) => p.competes[k]);
    const worth = able.map((p) => p.summary[k]);
    const best = c.better === "high" ? Math.max(...worth) : Math.min(...worth);
    const others = P.filter((p) => !p.oracle).length;
    const alike = able.length === others && worth.every((v) => v === worth[0]);
    for (const p of P) {
      const v = p.summary[k];
      const td = el("td", { textContent: UNIT[c.unit](v) });
      if (others > 1 && p.competes[k] && !alike && v === best) td.className = "best";
      if (c.name === "violation_share" && v > D.slo_budget) td.classList.add("bad");
      row.append(td);
    }
    body.append(row);
  });
  table.append(body);
  for (const p of P) {
    if (p.tuned === "-" || p.oracle) continue;
    $("tuned").append(el("li", {}, el("span", { className: "dot", style: "background:" + p.color }), p.name + ": " + p.tuned));
  }
  $("about").textContent = D.about;
  $("notes").textContent = D.notes;

  // --- plots
  const plots = [], holder = $("plots");
  const sync = uPlot.sync("time");
  let range = null;

  function tooltip(spec) {
    const tip = el("div", { className: "tip" });
    return {
      hooks: {
        init: (u) => u.over.parentNode.parentNode.append(tip),
        setCursor: (u) => {
          const i = u.cursor.idx, left = u.cursor.left;
          if (i == null || left < 0 || !u.over.matches(":hover")) { tip.style.display = "none"; return; }
          tip.replaceChildren(el("b", { textContent: clock(P[0].t[i]) }));
          for (const p of P) {
            if (!p.shown) continue;
            if (spec.shared && p !== P.find((q) => q.shown)) continue;
            tip.append(el("div", {}, el("span", {}, el("span", { className: "dot", style: "background:" + (spec.shared ? css("--quiet") : p.color) }), spec.shared ? spec.title : p.name), el("b", { textContent: spec.tell(p, i) })));
            const why = spec.why && spec.why(p, i);
            if (why) tip.append(el("span", { className: "why", textContent: why }));
          }
          if (spec.foot) tip.append(el("div", { className: "quiet", textContent: spec.foot }));
          tip.style.display = "block";
          const wrap = u.over.getBoundingClientRect(), box = u.over.parentNode.parentNode.getBoundingClientRect();
          const x = wrap.left - box.left + left, w = tip.offsetWidth;
          tip.style.left = Math.max(4, Math.min(x + 14 + w > box.width ? x - w - 14 : x + 14, box.width - w - 4)) + "px";
          tip.style.top = wrap.top - box.top + 6 + "px";
        },
      },
    };
  }

  // Steps that missed the SLO: shaded where one policy is shown, a strip for each where several are.
  const violations = {
    hooks: {
      drawClear: (u) => {
        const shown = P.filter((p) => p.shown), { ctx, bbox } = u, r = devicePixelRatio;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        shown.forEach((p, k) => {
          const tall = shown.length === 1 ? bbox.height : 5 * r;
          const top = shown.length === 1 ? bbox.top : bbox.top + bbox.height - (shown.length - k) * 6 * r;
          ctx.fillStyle = shown.length === 1 ? css("--bad") : p.color;
          ctx.globalAlpha = shown.length === 1 ? 0.14 : 1;
          for (let i = 0, n; i < p.t.length; i = n + 1) {
            for (n = i; n < p.t.length && p.bad[n]; n++); // a run of steps, painted once
            if (n === i) continue;
            const a = u.valToPos(p.t[i] - p.dt, "x", true), b = u.valToPos(p.t[n - 1], "x", true);
            ctx.fillRect(a, top, Math.max(b - a, r), tall);
          }
        });
        ctx.restore();
      },
      draw: (u) => {
        if (!(D.slo_ms > 0)) return;
        const y = Math.round(u.valToPos(D.slo_ms, "y", true)), { ctx, bbox } = u, r = devicePixelRatio;
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = css("--bad");
        ctx.lineWidth = 1.5 * r;
        ctx.setLineDash([6 * r, 4 * r]);
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        ctx.font = "600 " + 11 * r + "px system-ui, sans-serif";
        ctx.textAlign = "right";
        ctx.textBaseline = "bottom";
        ctx.fillText("SLO " + ms(D.slo_ms), bbox.left + bbox.width - 6 * r, y - 3 * r);
        ctx.restore();
      },
    },
  };

  // One row of marks per policy: up, down, resized.
  const marks = {
    hooks: {
      draw: (u) => {
        const shown = P.filter((p) => p.shown), { ctx, bbox } = u, r = devicePixelRatio;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        shown.forEach((p, k) => {
          const y = bbox.top + ((k + 0.5) * bbox.height) / shown.length;
          const h = Math.min(7 * r, (0.36 * bbox.height) / shown.length);
          ctx.strokeStyle = ctx.fillStyle = p.color;
          ctx.lineWidth = 1.5 * r;
          ctx.globalAlpha = 0.25;
          ctx.beginPath();
          ctx.moveTo(bbox.left, y);
          ctx.lineTo(bbox.left + bbox.width, y);
          ctx.stroke();
          ctx.globalAlpha = 0.9;
          for (let i = 0; i < p.t.length; i++) {
            if (!p.set[i]) continue;
            const x = u.valToPos(p.t[i] - p.dt, "x", true), d = p.dir[i];
            ctx.beginPath();
            if (d > 0) { ctx.moveTo(x - h * 0.6, y); ctx.lineTo(x + h * 0.6, y); ctx.lineTo(x, y - h); ctx.fill(); }
            else if (d < 0) { ctx.moveTo(x - h * 0.6, y); ctx.lineTo(x + h * 0.6, y); ctx.lineTo(x, y + h); ctx.fill(); }
            if (p.set[i] & 6) { ctx.beginPath(); ctx.arc(x, y, h * 0.45, 0, 7); ctx.fillStyle = css("--card"); ctx.fill(); ctx.fillStyle = p.color; ctx.stroke(); }
          }
        });
        ctx.restore();
      },
    },
  };

  const stepped = uPlot.paths.stepped({ align: -1 });
  function decided(p, i) {
    const what = [];
    if (p.set[i] & 1) what.push(p.wanted[i] + " replicas");
    if (p.set[i] & 2) what.push(cores(p.cpu[i]));
    if (p.set[i] & 4) what.push(gib(p.mem[i]));
    return what.length ? what.join(", ") : "nothing";
  }

  const small = Math.max(...P.map((p) => Math.max(...p.mem))) < 2;
  const SPECS = [
    { title: "Load", unit: "requests/s", key: "load", shared: true, tell: (p, i) => plain(p.load[i]) + " /s", zero: true },
    { title: "Replicas", unit: "ready", key: "ready", step: true, zero: true, tell: (p, i) => plain(p.ready[i]) + " ready of " + plain(p.wanted[i]) },
    { title: "CPU limit", unit: "cores per replica", key: "cpu", step: true, zero: true, tell: (p, i) => cores(p.cpu[i]) },
    { title: "Memory limit", unit: small ? "MiB per replica" : "GiB per replica", scale: small ? 1024 : 1, key: "mem", step: true, zero: true, tell: (p, i) => gib(p.mem[i]) },
    { title: "CPU utilisation", unit: "% of what is reserved", key: "ucpu", scale: 100, percent: true, tell: (p, i) => share(p.ucpu[i]) },
    { title: "Memory utilisation", unit: "% of what is reserved", key: "umem", scale: 100, percent: true, tell: (p, i) => share(p.umem[i]) },
    { title: "Latency", unit: "p99 in ms, log scale; marked where the SLO was missed", key: "p99", log: true, tall: true, plugins: [violations],
      tell: (p, i) => ms(p.p99[i]) + (p.bad[i] ? "  missed" : ""), foot: D.slo_ms > 0 ? "SLO " + ms(D.slo_ms) : "" },
    { title: "Reserved", unit: "cores in all", key: "all", zero: true, tell: (p, i) => cores(p.all[i]) },
    { title: "Decisions", unit: "▲ more replicas, ▼ fewer, ○ another size", key: "none", marks: true, plugins: [marks],
      tell: decided, why: (p, i) => (p.set[i] ? D.causes[p.why[i]] : "") },
  ];
  for (const p of P) p.all = p.ready.map((n, i) => n * p.cpu[i]);

  function build() {
    while (plots.length) plots.pop().destroy();
    holder.querySelectorAll(".plot").forEach((n) => n.remove());
    const width = holder.clientWidth - 22, narrow = width < 560;
    for (const spec of SPECS) {
      const shown = P.filter((p) => p.shown);
      const used = spec.shared ? shown.slice(0, 1) : shown;
      const rows = spec.marks ? [P[0].t.map(() => null)] : used.map((p) => (spec.scale ? p[spec.key].map((v) => (v == null ? null : v * spec.scale)) : p[spec.key]));
      const series = spec.marks ? [{ stroke: "transparent" }] : used.map((p) => ({
        stroke: spec.shared ? css("--ink") : p.color, width: spec.shared ? 1.25 : 1.6,
        dash: p.oracle && !spec.shared ? [5, 4] : undefined, paths: spec.step ? stepped : undefined, points: { show: false },
      }));
      let y = { auto: true };
      if (spec.percent) y = { range: [0, 100] };
      if (spec.zero) y = { range: (u, lo, hi) => [0, (hi > 0 ? hi : 1) * 1.08] };
      if (spec.marks) y = { range: [0, 1] };
      if (spec.log) y = {
        distr: 3,
        range: (u, lo, hi) => {
          const l = Math.min(lo > 0 ? lo : 1, D.slo_ms || Infinity), h = Math.max(hi > 0 ? hi : 10, D.slo_ms || 0);
          return [l * (P.filter((p) => p.shown).length > 1 ? 0.5 : 0.7), h * 1.5];
        },
      };
      const box = el("div", { className: "plot" }, el("div", { className: "head" }, el("h3", { textContent: spec.title }), el("span", { textContent: spec.unit })));
      holder.append(box);
      const height = spec.tall ? 300 : spec.marks ? 70 + 20 * shown.length : 190;
      const values = (u, ticks) => ticks.map((v) => (v == null ? "" : digits(v)));
      plots.push(new uPlot({
        width, height, legend: { show: false }, padding: [10, 14, 0, 0],
        cursor: { sync: { key: sync.key, setSeries: false }, points: { size: 6 }, drag: { x: true, y: false }, y: false },
        scales: { x: { time: false }, y },
        series: [{}, ...series],
        axes: [
          axis({ values: (u, t) => t.map(clock), incrs: NICE, space: narrow ? 60 : 80, size: 34 }),
          spec.marks ? { size: 58, grid: { show: false }, ticks: { show: false }, values: () => [] } : axis({ size: 58, values, space: 34,
            splits: spec.log ? (u) => { const { min, max } = u.scales.y; return decades(min, max, max / min > 2e4); } : undefined, filter: spec.log ? (u, t) => t : undefined }),
        ],
        plugins: [...(spec.plugins || []), tooltip(spec)],
        hooks: {
          setScale: [(u, key) => {
            if (key !== "x" || u.quiet) return;
            const { min, max } = u.scales.x;
            if (range && range[0] === min && range[1] === max) return;
            range = [min, max];
            for (const other of plots) if (other !== u) { other.quiet = true; other.setScale("x", { min, max }); other.quiet = false; }
          }],
        },
      }, [P[0].t, ...rows], box));
    }
    if (range) for (const u of plots) { u.quiet = true; u.setScale("x", { min: range[0], max: range[1] }); u.quiet = false; }
  }

  const chips = $("policies");
  for (const p of P) {
    const button = el("button", { type: "button" }, el("span", { className: "dot", style: "background:" + p.color }), p.name);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      if (p.shown && P.filter((q) => q.shown).length === 1) return;
      p.shown = !p.shown;
      button.setAttribute("aria-pressed", String(p.shown));
      build();
    });
    chips.append(button);
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
