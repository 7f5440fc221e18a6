// training.js - how agents learn: scores of episodes, estimates with their interval, losses.

import { h, fill, empty, card, stageBadge, terms } from './dom.js';
import * as format from './format.js';
import { get, getText, workloadPath } from './data.js';
import { panel } from './plot.js';
import { rowsOf } from './table.js';

const episodeOf = (v) => (Number.isInteger(v) ? `${v}` : '');

function panels() {
  const x = episodeOf;
  const xLong = (v) => `episode ${v}`;
  return {
    reward: panel({ title: 'Reward', note: 'of 2 per step, mean of an episode', axis: format.number, x,
      xLong, sync: 'episodes', height: 190, floor: (data, low) => Math.max(0, (low ?? 0) - 0.1), series: [
        { label: 'AWARE', colour: 'aware', points: true }, { label: 'fallback alone', colour: 'twin',
          dash: [5, 4] }] }),
    estimate: panel({ title: 'Score', note: 'estimated off-policy with its interval, and reached', axis: format.number,
      x, xLong, sync: 'episodes', height: 190, floor: (data, low) => low ?? 0, series: [
        { label: 'estimate', colour: 'aware' }, { label: 'lower bound', colour: 'aware', dash: [3, 3], width: 1, unlisted: true },
        { label: 'upper bound', colour: 'aware', dash: [3, 3], width: 1, unlisted: true },
        { label: 'reached', colour: 'serving', points: true, width: 1.25 },
        { label: 'threshold', colour: 'bad', dash: [6, 4], width: 1.25 }] }),
    missed: panel({ title: 'Steps that missed the SLO', axis: (v) => format.percent(v, 0), x, xLong,
      sync: 'episodes', ceiling: (data, high) => Math.max(0.02, high ?? 0), series: [
        { label: 'AWARE', colour: 'bad', points: true }, { label: 'fallback alone', colour: 'twin',
          dash: [5, 4] }] }),
    cost: panel({ title: 'Cost', note: 'mean of an episode', axis: format.price, x, xLong, sync: 'episodes', series: [
      { label: 'AWARE', colour: 'aware', fill: true }, { label: 'fallback alone', colour: 'twin',
        dash: [5, 4] }] }),
    loss: panel({ title: 'Losses', axis: format.number, x, xLong, sync: 'episodes', series: [
      { label: 'critic', colour: 'scenario', points: true }, { label: 'imitation', colour: 'online', points: true },
      { label: 'error of the copies', colour: 'offline', points: true }] }),
    weight: panel({ title: 'Weight of the SLO', axis: format.number, x, xLong, sync: 'episodes', series: [
      { label: 'weight', colour: 'load', step: true }] }),
  };
}

function draw(p, e, stepS) {
  const x = e.number;
  const stages = e.stage;
  const set = (name, y, extra) => p[name].set({ x, y, stages, empty: e.at.length ? undefined
    : 'No episode has ended since the daemon started.', ...extra });
  const ratio = (a, b) => a.map((v, i) => (v === null || !b[i] ? null : v / b[i]));
  const hours = e.steps.map((steps) => (steps * stepS) / 3600);
  set('reward', [ratio(e.reward, e.steps), ratio(e.twin_reward, e.steps)]);
  set('estimate', [e.estimate, e.estimate_low, e.estimate_high, e.judged_mean, e.threshold], {
    band: { low: e.estimate_low, high: e.estimate_high, colour: 'aware' },
    empty: 'Nothing has been estimated yet: that takes a policy, and episodes to judge it by.' });
  set('missed', [ratio(e.missed, e.steps), ratio(e.twin_missed, e.steps)]);
  set('cost', [ratio(e.cost, hours), ratio(e.twin_cost, hours)]);
  set('loss', [e.critic_loss, e.imitation_loss, e.copy_error], { empty: e.agent === 'formula'
    ? 'No round of learning yet. A formula is searched for on copies of the workload: their error appears here.'
    : 'No round of learning yet.' });
  set('weight', [e.slo_weight]);
}

// Lines of "a,b,c" with a header; what is no number is null. A training run writes no quotes.
function csv(text) {
  const lines = text.trim().split('\n').map((line) => line.split(','));
  const columns = Object.fromEntries(lines[0].map((name) => [name, []]));
  for (const line of lines.slice(1)) {
    lines[0].forEach((name, i) => columns[name].push(line[i] === '' || line[i] === undefined
      || !Number.isFinite(Number(line[i])) ? null : Number(line[i])));
  }
  return columns;
}

// At most `max` points, means of neighbours.
function thin(columns, max) {
  const names = Object.keys(columns);
  const count = columns[names[0]].length;
  const step = Math.ceil(count / max);
  if (step <= 1) return columns;
  return Object.fromEntries(names.map((name) => [name, Array.from({ length: Math.ceil(count / step) }, (_, i) => {
    const part = columns[name].slice(i * step, (i + 1) * step).filter((v) => v !== null);
    return part.length ? part.reduce((a, b) => a + b, 0) / part.length : null;
  })]));
}

const COLOURS = ['aware', 'scenario', 'online', 'offline', 'serving', 'load'];
const COMPARED_MAX = COLOURS.length; // runs at a time: as many as there are colours to tell apart

// `x` of all runs in one ascending column, and each run's values where it has them.
export function aligned(runs, name) {
  const x = [...new Set(runs.flatMap((run) => run.x))].sort((a, b) => a - b);
  const at = new Map(x.map((value, i) => [value, i]));
  return { x, y: runs.map((run) => {
    const column = x.map(() => null);
    (run.columns[name] || []).forEach((value, i) => { column[at.get(run.x[i])] = value; });
    return column;
  }) };
}

function runSection(reports, made, app, chosen) {
  const names = reports.filter((r) => r.kind === 'run' && r.name.endsWith('/progress.csv')).map((r) => r.name);
  const short = (name) => name.replace('/progress.csv', '');
  if (!names.length) {
    return empty('No run of ', h('code', {}, 'aware train'), ' in the folder of reports. Start the daemon with ',
      h('code', {}, '--reports DIR'), ' and train with ', h('code', {}, '--out DIR/NAME'), '.');
  }
  const picked = names.filter((name) => chosen.includes(short(name))).slice(0, COMPARED_MAX);
  if (!picked.length) picked.push(names[0]);
  const loaded = new Map();
  const plots = h('div', { class: 'grid' });
  let asked = 0;
  async function load(name) {
    if (!loaded.has(name)) {
      const columns = thin(csv(await getText(`/reports/${name}`)), 600);
      loaded.set(name, { columns, x: columns.step || columns[Object.keys(columns)[0]] });
    }
    return loaded.get(name);
  }
  async function show() {
    const mine = ++asked;
    const shown = [...picked];
    const runs = await Promise.all(shown.map(load));
    if (mine !== asked) return;
    for (const old of made.splice(0)) old.destroy();
    const columns = [...new Set(runs.flatMap((run) => Object.keys(run.columns)))].filter((name) => name !== 'step' &&
      name !== 'time_s' && runs.some((run) => run.columns[name] && run.columns[name].some((v) => v !== null)));
    fill(plots, columns.map((name) => {
      const one = panel({ title: name.replace(/_/g, ' '), axis: format.number, x: format.number,
        xLong: (v) => `step ${format.integer(v)}`, sync: 'run', floor: (data, low) => low ?? 0,
        series: shown.map((run, i) => ({ label: short(run), colour: COLOURS[i], span: true })) });
      made.push(one);
      one.set(aligned(runs, name));
      return one.root;
    }));
  }
  const again = () => show().catch((error) => fill(plots, empty(error.message)));
  const boxes = h('div', { class: 'chips', role: 'group', 'aria-label': 'Runs to compare' }, names.slice(0, 60)
    .map((name) => h('button', { type: 'button', class: 'chip', 'aria-pressed': `${picked.includes(name)}`,
      onclick: (event) => {
        const at = picked.indexOf(name);
        if (at >= 0 && picked.length > 1) picked.splice(at, 1);
        else if (at < 0 && picked.length < COMPARED_MAX) picked.push(name);
        event.currentTarget.setAttribute('aria-pressed', `${picked.includes(name)}`);
        app.keep({ runs: picked.map(short).join(',') });
        again();
      } }, short(name))));
  again();
  return [h('p', { class: 'quiet' }, `Choose up to ${COMPARED_MAX} runs to compare them, curve beside curve.`),
    h('div', { class: 'tools' }, boxes), plots];
}

export function view(root, app, [namespace, workload], query) {
  const p = panels();
  const made = [];
  let stopped = false;
  let name = namespace && workload ? `${namespace}/${workload}` : null;
  const choose = h('select', { 'aria-label': 'Workload', onchange: () => {
    location.hash = `#/training/${choose.value}`;
  } });
  const facts = h('div', {});
  const runs = h('div', {}, h('p', { class: 'quiet' }, 'Looking\u2026'));
  fill(root, h('div', { class: 'title' }, h('h1', {}, 'Training'), choose), facts,
    h('div', { class: 'grid' }, Object.values(p).map((one) => one.root)),
    card('Runs of aware train', null, runs));
  app.title('Training');

  async function refresh() {
    const table = await get('/v1/table');
    if (stopped) return;
    const rows = rowsOf(table);
    if (!rows.length) { fill(facts, empty('There is no workload yet.')); return; }
    if (!name) name = rows[0].name;
    if (choose.options.length !== rows.length) {
      fill(choose, rows.map((r) => h('option', { value: r.name, selected: r.name === name }, r.name)));
    }
    const [episodes, status] = await Promise.all([get(`${workloadPath(name)}/episodes`), get('/v1/status')]);
    if (stopped) return;
    const row = rows.find((r) => r.name === name);
    fill(facts, h('div', { class: 'facts' }, row && stageBadge(row.stage), terms([
      ['agent', episodes.learning ? episodes.agent : 'learning is off'],
      ['now', episodes.learns_now ? 'learning: a round is under way' : 'no round is under way'],
      ['episodes', `${format.integer(row ? row.episodes : 0)} since the start, the present one at step ` +
        `${episodes.open.steps}`],
      ['policies', `replaced ${episodes.model_changes} times`],
      ['rounds', `${format.integer(status.counts.learn_rounds)} of learning over all workloads`]]),
    row && h('a', { href: `#/workload/${name}` }, 'The workload')));
    draw(p, episodes, status.step_s);
  }
  get('/v1/reports').then((found) => { if (!stopped) fill(runs, runSection(found.reports, made, app,
    (query.get('runs') || '').split(',')));  })
    .catch((error) => fill(runs, empty(error.message)));
  return { refresh, destroy() { stopped = true; for (const one of [...Object.values(p), ...made]) one.destroy(); } };
}
