// plot.js - plots over time: panels of uPlot that share a cursor, bands for stages, a tip.

import { h, fill } from './dom.js';
import { clock } from './format.js';

const INCREMENTS = [1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
  172800, 604800, 2592000];
const STAGES = ['initialized', 'offline', 'online', 'serving'];

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const panels = new Set();
// Colours are read when a panel is made: another theme makes all of them anew.
export function repaint() { for (const panel of panels) panel.remake(); }

// Runs of equal values: [first, last, value].
function runs(values) {
  const found = [];
  for (let i = 0; i < values.length; i++) {
    if (found.length && found[found.length - 1][2] === values[i]) found[found.length - 1][1] = i;
    else found.push([i, i, values[i]]);
  }
  return found;
}

function drawBands(u, stages) {
  if (!stages || !stages.length) return;
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  for (const [first, last, stage] of runs(stages)) {
    const from = u.valToPos(u.data[0][first], 'x', true);
    const to = u.valToPos(u.data[0][Math.min(last + 1, stages.length - 1)], 'x', true);
    u.ctx.fillStyle = colour(STAGES[stage]);
    u.ctx.globalAlpha = 0.07;
    u.ctx.fillRect(from, top, to - from, height);
    u.ctx.globalAlpha = 0.8;
    u.ctx.fillRect(from, top, to - from, 2 * devicePixelRatio);
  }
  u.ctx.restore();
}

// Marks: {at index, kind: 'line' | 'up' | 'down' | 'dot', colour, text}
function drawMarks(u, marks) {
  const { left, top, width, height } = u.bbox;
  const unit = devicePixelRatio;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  for (const mark of marks) {
    const x = u.valToPos(u.data[0][mark.index], 'x', true);
    u.ctx.fillStyle = u.ctx.strokeStyle = colour(mark.colour);
    if (mark.kind === 'line') {
      u.ctx.globalAlpha = 0.7;
      u.ctx.lineWidth = unit;
      u.ctx.beginPath(); u.ctx.moveTo(x, top); u.ctx.lineTo(x, top + height); u.ctx.stroke();
      continue;
    }
    u.ctx.globalAlpha = 0.9;
    const size = 3.5 * unit;
    const y = top + height - size - unit;
    u.ctx.beginPath();
    if (mark.kind === 'dot') u.ctx.arc(x, top + size + 3 * unit, 1.8 * unit, 0, 7);
    else if (mark.kind === 'up') {
      u.ctx.moveTo(x - size, y + size); u.ctx.lineTo(x + size, y + size); u.ctx.lineTo(x, y - size);
    } else {
      u.ctx.moveTo(x - size, y - size); u.ctx.lineTo(x + size, y - size); u.ctx.lineTo(x, y + size);
    }
    u.ctx.fill();
  }
  u.ctx.restore();
}

function shade(u, low, high, name) {
  const { ctx } = u;
  const xs = u.data[0];
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  ctx.fillStyle = colour(name);
  ctx.globalAlpha = 0.16;
  let begun = false;
  const upper = [];
  ctx.beginPath();
  const close = () => {
    for (const [x, y] of upper.reverse()) ctx.lineTo(x, y);
    upper.length = 0;
    if (begun) { ctx.closePath(); ctx.fill(); ctx.beginPath(); }
    begun = false;
  };
  for (let i = 0; i < xs.length; i++) {
    if (low[i] === null || high[i] === null) { close(); continue; }
    const x = u.valToPos(xs[i], 'x', true);
    const y = u.valToPos(low[i], 'y', true);
    if (begun) ctx.lineTo(x, y); else ctx.moveTo(x, y);
    begun = true;
    upper.push([x, u.valToPos(high[i], 'y', true)]);
  }
  close();
  ctx.restore();
}

/*
 * A panel. `spec`: {title, unit, height, series: [{label, colour, dash, width, fill, step, format, scale,
 * points}], axis: format of the axis, axis2, log, zero, floor, x: format of x, note}.
 * set({x, y: [column...], stages, marks, band: {low, high, colour}, empty}).
 */
export function panel(spec) {
  const host = h('div', { class: 'canvas' });
  const tip = h('div', { class: 'tip', hidden: true });
  const legend = h('div', { class: 'legend' });
  const note = h('span', { class: 'quiet' }, spec.note || '');
  const root = h('figure', { class: `plot ${spec.class || ''}` },
    h('figcaption', { class: 'head' }, h('h2', {}, spec.title), note, legend), host, tip);
  const x = spec.x || ((value) => clock(value));
  let u = null;
  let shown = null;
  const hidden = new Set();

  function paintLegend() {
    fill(legend, spec.series.map((s, i) => !s.unlisted && h('button', { type: 'button', class: 'key', 'aria-pressed':
      hidden.has(i) ? 'false' : 'true', title: 'Show or hide', onclick: () => {
      if (hidden.has(i)) hidden.delete(i); else hidden.add(i);
      if (u) u.setSeries(i + 1, { show: !hidden.has(i) });
      paintLegend();
    } }, h('i', { class: s.dash ? 'dashed' : '', style: { '--c': `var(--${s.colour})` } }), s.label)));
  }

  function tell(self) {
    const { idx, left, top } = self.cursor;
    if (idx === null || idx === undefined || left < 0 || !shown) { tip.hidden = true; return; }
    const rows = spec.series.map((s, i) => !hidden.has(i) && h('div', {},
      h('span', {}, h('i', { style: { '--c': `var(--${s.colour})` } }), s.label),
      h('b', {}, (s.format || spec.axis)((shown.raw || shown.y)[i][idx]))));
    const marks = (shown.marks || []).filter((mark) => mark.index === idx && mark.text)
      .map((mark) => h('p', {}, mark.text));
    const stage = shown.stages && h('em', { class: STAGES[shown.stages[idx]] }, STAGES[shown.stages[idx]]);
    fill(tip, h('header', {}, (spec.xLong || ((value) => clock(value, true)))(shown.x[idx]), stage), rows, marks);
    tip.hidden = false;
    const box = self.over.getBoundingClientRect();
    const frame = root.getBoundingClientRect();
    const at = box.left - frame.left + left;
    const right = at + tip.offsetWidth + 24 > frame.width;
    tip.style.left = `${right ? Math.max(4, at - tip.offsetWidth - 12) : at + 12}px`;
    tip.style.top = `${Math.max(4, box.top - frame.top + Math.min(top, box.height - 24) - 8)}px`;
  }

  function make() {
    if (u) { u.destroy(); u = null; }
    if (!shown || !shown.x.length || !window.uPlot) return;
    const axis = { stroke: colour('quiet'), font: '11px system-ui, sans-serif', grid: { stroke: colour('grid'),
      width: 1 }, ticks: { show: false } };
    const scales = { x: { time: false } };
    scales.y = spec.log && spec.log(shown) ? { distr: 3 } : { range: (self, low, high) => {
      let bottom = spec.floor ? spec.floor(shown, low) : Math.min(0, low ?? 0);
      let top = spec.ceiling ? spec.ceiling(shown, high) : high;
      if (!Number.isFinite(top) || top === null || top <= bottom) top = bottom + 1;
      if (bottom < 0) bottom -= 0.06 * (top - bottom);
      return [bottom, top + 0.08 * (top - bottom)];
    } };
    if (spec.axis2) scales.y2 = { range: (self, low, high) => [0, (high || 1) * 1.1] };
    const options = {
      width: Math.max(120, host.clientWidth), height: spec.height || 150, legend: { show: false },
      padding: [10, spec.axis2 ? 4 : 18, 0, 0],
      cursor: { sync: spec.sync ? { key: spec.sync } : undefined, drag: { x: false, y: false },
        points: { size: 6 }, y: false },
      scales,
      axes: [
        { ...axis, incrs: spec.x ? undefined : INCREMENTS, space: 70, size: 28,
          values: (self, splits) => splits.map(x) },
        { ...axis, size: 54, space: 32, values: (self, splits) => splits.map((v) => (v === null ? ''
          : spec.axis(v))) },
        ...(spec.axis2 ? [{ ...axis, scale: 'y2', side: 1, size: 62, grid: { show: false },
          incrs: Array.from({ length: 40 }, (_, i) => 2 ** (i - 20)),
          values: (self, splits) => splits.map((v) => (v === null ? '' : spec.axis2(v))) }] : []),
      ],
      series: [{}, ...spec.series.map((s, i) => ({
        label: s.label, scale: s.scale || 'y', stroke: colour(s.colour), width: s.width || 1.75,
        dash: s.dash, show: !hidden.has(i), spanGaps: !!s.span,
        fill: s.fill ? `${colour(s.colour)}${s.fill === true ? '22' : s.fill}` : undefined,
        paths: s.step ? window.uPlot.paths.stepped({ align: 1 }) : s.paths === 'none' ? () => null : undefined,
        points: { show: s.points || (shown.x.length < 3 ? true : false), size: 4,
          fill: s.points ? colour(s.colour) : undefined },
      }))],
      hooks: {
        drawClear: [(self) => drawBands(self, shown.stages)],
        drawAxes: [(self) => shown.band && shade(self, shown.band.low, shown.band.high, shown.band.colour)],
        draw: [(self) => shown.marks && drawMarks(self, shown.marks)],
        setCursor: [tell],
      },
    };
    u = new window.uPlot(options, [shown.x, ...shown.y], host);
  }

  const missing = h('p', { class: 'empty' });
  let scaleKind = null;
  const self = {
    root,
    note(text) { note.textContent = text; },
    set(data) {
      shown = data;
      const none = !data.x.length || data.y.every((column) => column.every((v) => v === null));
      if (none) {
        if (u) { u.destroy(); u = null; }
        missing.textContent = data.empty || 'No figures yet.';
        if (!missing.isConnected) fill(host, missing);
        return;
      }
      if (missing.isConnected) missing.remove();
      const kind = spec.log ? spec.log(data) : false;
      if (!u || kind !== scaleKind) { scaleKind = kind; make(); } else u.setData([data.x, ...data.y]);
    },
    remake() { make(); },
    destroy() { observer.disconnect(); panels.delete(self); if (u) u.destroy(); },
  };
  const observer = new ResizeObserver(() => {
    if (u && host.clientWidth > 0 && host.clientWidth !== u.width) {
      u.setSize({ width: host.clientWidth, height: spec.height || 150 });
    } else if (!u && shown) self.set(shown);
  });
  observer.observe(host);
  panels.add(self);
  if (spec.series.length > 1) paintLegend();
  root.addEventListener('mouseleave', () => { tip.hidden = true; });
  return self;
}

// A running mean over `width` values; gaps stay gaps.
export function smooth(values, width) {
  const found = [];
  let sum = 0;
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i] !== null) { sum += values[i]; count++; }
    if (i >= width && values[i - width] !== null) { sum -= values[i - width]; count--; }
    found.push(values[i] === null || !count ? null : sum / count);
  }
  return found;
}
