// overview.js - the fleet at a glance: who acts, whether SLOs hold, what it saves, what was done.

import { h, fill, icon, empty, card, stageBadge, tile, STAGE_WORDS } from './dom.js';
import * as format from './format.js';
import { get } from './data.js';
import { panel } from './plot.js';
import { rowsOf } from './table.js';

const STAGES = ['initialized', 'offline', 'online', 'serving'];
const LATELY = 240; // ticks that the figures at the top look back on

function stageBar(workloads) {
  const total = Math.max(1, workloads.total);
  return h('div', { class: 'stages' },
    h('div', { class: 'bar', role: 'img', 'aria-label': STAGES.map((s) => `${workloads[s]} ${s}`).join(', ') },
      STAGES.filter((s) => workloads[s]).map((s) => h('i', { class: s, style: {
        width: `${100 * workloads[s] / total}%` } }))),
    h('ul', {}, STAGES.filter((s) => workloads[s] || s !== 'initialized').map((s) => h('li', { title: STAGE_WORDS[s] },
      h('i', { class: s }), `${format.integer(workloads[s])} ${s}`))));
}

function sum(values) { return values.reduce((a, b) => a + (b || 0), 0); }

function tiles(status, table, fleet) {
  const beside = table.since_start.beside_twin;
  const w = status.workloads;
  const last = (column) => column.slice(-LATELY);
  const missed = sum(last(fleet.missing_slo));
  const steps = sum(last(fleet.workloads));
  const share = steps ? missed / steps : null;
  const span = format.duration(Math.min(LATELY, fleet.at.length) * status.step_s);
  const budget = table.slo_budget.find((value) => value !== null) ?? null;
  const saving = status.saved;
  const perDay = status.replica_changes_per_day ?? null;
  const back = status.replicas_removed_within_5m || 0;
  const pending = fleet.pending.at(-1) ?? 0;
  const learns = sum(table.learns_now);
  return [
    tile('Workloads', format.integer(w.total), [w.frozen ? `${w.frozen} frozen` : 'none frozen',
      w.proposals && `${w.proposals} wait for approval`, learns && `${learns} learning now`,
      pending && `the cluster is full: ${format.integer(pending)} ${pending === 1 ? 'pod' : 'pods'} pending`]
      .filter(Boolean).join('; '),
    'How many workloads there are, by stage: offline learns from the fallback, online acts and learns, serving acts.',
    pending ? 'warn' : '', stageBar(w)),
    tile('SLO', share === null ? '\u2013' : `${format.percent(1 - share, 2)}`,
      `of steps met it in the last ${span}; ${w.missing_slo ? `${w.missing_slo} miss it now`
        : 'no workload misses it now'}${budget !== null ? `; at least ${format.percent(1 - budget, 0)} must meet it` : ''}`,
      'The share of steps in which a workload met its service-level objective; green while within the budget.',
      share === null ? '' : share > (budget ?? 0.01) ? 'bad' : 'good'),
    tile(saving < -0.0005 ? 'Spends more than the fallback' : beside ? 'Saved against the fallback'
      : 'Saves against the fallback', saving === null ? '\u2013' : format.percent(Math.abs(saving), 1),
    beside ? `${format.money(beside.cost)} spent, the twin under the fallback alone ` +
      `${format.money(beside.twin_cost)}; SLO missed in ${format.percent(beside.missed_steps / beside.steps, 2)} ` +
      `and ${format.percent(beside.twin_missed_steps / beside.steps, 2)}`
      : 'the present plans against those that the fallback proposes',
    beside ? 'What was spent less than the same load costs under the fallback alone, simulated beside it.'
      : 'What the present sizes cost less than those that the fallback proposes now.',
    saving === null ? '' : saving < -0.005 ? 'bad' : 'good'),
    tile('Cost', format.money(status.cost_per_hour, '/h'),
      `${format.rate(fleet.arrivals_per_s.at(-1) ?? null).replace('/s', ' requests a second')}; CPU ` +
      `${format.percent(fleet.cpu_used.at(-1) ?? null, 0)} and memory ` +
      `${format.percent(fleet.memory_used.at(-1) ?? null, 0)} used`,
    'What all replicas cost an hour now, by the prices of the profiles.'),
    tile('Changes', perDay === null ? '\u2013' : `${format.number(perDay)} a day`,
      `of the number of replicas, per workload; ${back ? `${format.integer(back)} removed within 5 minutes of being added`
        : 'none removed within 5 minutes of being added'}`,
      'How often the number of replicas is changed. Each change costs something: a pod to start or to drain.',
      back ? 'warn' : ''),
  ];
}

function attention(rows) {
  const found = rows.map((r) => {
    const why = [r.missed && `misses its SLO: ${format.latency(r.latency)} of ${format.latency(r.slo)}`,
      r.missedShare > r.budget && `missed ${format.percent(r.missedShare, 2)} of its steps, ` +
        `${format.percent(r.budget, 0)} may`,
      r.pending > 0 && `the cluster is full: ${r.pending} ${r.pending === 1 ? 'pod' : 'pods'} pending`,
      r.watchdog && 'the watchdog holds the agent back', r.freeze && 'frozen'].filter(Boolean);
    const weight = (r.missed ? 4 : 0) + (r.watchdog ? 2 : 0) + (r.missedShare > r.budget ? 1 : 0) +
      (r.pending ? 3 : 0) + (r.freeze ? 0.5 : 0);
    return { r, why, weight };
  }).filter((one) => one.weight > 0).sort((a, b) => b.weight - a.weight || (b.r.near || 0) - (a.r.near || 0));
  if (!found.length) return h('p', { class: 'calm' }, icon('check'), 'Nothing needs attention.');
  return [h('ul', { class: 'list' }, found.slice(0, 8).map(({ r, why }) => h('li', {},
    h('a', { href: `#/workload/${r.name}` }, h('span', { class: 'top' }, h('b', {}, r.name), stageBadge(r.stage)),
      h('span', { class: 'why' }, why.join('; ')))))),
  found.length > 8 && h('p', { class: 'quiet' }, `and ${format.integer(found.length - 8)} more`)];
}

// The most expensive ones, each beside what the fallback would have cost.
function dearest(rows) {
  const top = rows.filter((r) => r.cost !== null).sort((a, b) => b.cost - a.cost).slice(0, 6);
  const most = Math.max(...top.map((r) => Math.max(r.cost, r.fallback || 0)), 1e-9);
  return h('ul', { class: 'list costs' }, top.map((r) => h('li', {}, h('a', { href: `#/workload/${r.name}` },
    h('span', { class: 'top' }, h('b', {}, r.name), h('span', { class: 'grow' }), h('span', {},
      format.money(r.cost, '/h')), h('span', { class: r.saving > 0.005 ? 'good' : r.saving < -0.005 ? 'worse'
      : 'quiet' }, r.saving === null ? '' : `${format.signed(-r.saving, 0)}`)),
    h('span', { class: 'bars' }, h('i', { class: 'own', style: { width: `${100 * r.cost / most}%` } }),
      h('i', { class: 'rival', style: { width: `${100 * (r.fallback || 0) / most}%` } }))))));
}

export function change(entry) {
  const parts = format.changes(entry.from, entry.to, entry.changed);
  if (!parts.length) return h('span', { class: 'quiet' }, 'no change');
  return parts.map((p) => h('span', { class: `change ${p.grows ? 'up' : 'down'}` }, p.what, ' ',
    h('s', {}, p.from), ' \u2192 ', h('b', {}, p.to)));
}

export function decision(entry, named) {
  return h('li', {}, h('a', { href: `#/workload/${entry.workload}/decision/${entry.seq}` },
    h('span', { class: 'top' }, h('time', {}, format.when(entry.at)),
      named && h('b', {}, entry.workload), h('span', { class: `actor ${entry.actor}` }, entry.actor),
      change(entry)),
    h('span', { class: 'why line', title: entry.why }, reasonOf(entry.why))));
}

// What stands behind "who: what changed, because": the change itself is shown already.
export function reasonOf(why) {
  const at = why.search(/, (seeing|because) /);
  return at < 0 ? why : why.slice(at + 2);
}

export function view(root, app) {
  let stopped = false;
  const top = h('div', { class: 'tiles' });
  const needs = h('div', {});
  const recent = h('div', {});
  const dear = h('div', {});
  const cost = panel({ title: 'Cost', unit: '$/h', axis: format.price, height: 190, sync: 'fleet',
    series: [{ label: 'AWARE', colour: 'aware', fill: true, format: (v) => format.money(v, '/h') },
      { label: 'fallback alone', colour: 'twin', dash: [5, 4], format: (v) => format.money(v, '/h') }] });
  const stages = panel({ title: 'Stages', axis: (v) => (Number.isInteger(v) ? format.integer(v) : ''), height: 190,
    sync: 'fleet', series: ['serving', 'online', 'offline'].map((s) => ({ label: s, colour: s, step: true,
      format: format.integer, width: 1.25, fill: 'ff' })) }); // opaque: each covers those below it
  const slo = panel({ title: 'Workloads that miss their SLO', axis: (v) => (Number.isInteger(v) ? format.integer(v)
    : ''), height: 150, sync: 'fleet', ceiling: (data, high) => Math.max(1, high ?? 1),
  series: [{ label: 'AWARE', colour: 'bad', fill: true, step: true, format: format.integer },
    { label: 'fallback alone', colour: 'twin', dash: [5, 4], step: true, format: format.integer }] });
  const load = panel({ title: 'Requests', axis: format.number, height: 150, sync: 'fleet',
    series: [{ label: 'requests', colour: 'load', fill: true, format: format.rate }] });
  fill(root, h('h1', { class: 'unseen' }, 'Overview'), top,
    h('div', { class: 'grid' }, cost.root, stages.root, slo.root, load.root),
    h('div', { class: 'grid wide-right' }, h('div', {}, card('Needs attention', null, needs),
      card('Most expensive', 'grey: under the fallback', dear)), card('Recent changes', null, recent)));
  app.title('Overview');

  async function refresh() {
    const [status, table, fleet, audit] = await Promise.all([get('/v1/status'), get('/v1/table'),
      get('/v1/series'), get('/v1/audit?kind=decision&limit=60')]);
    if (stopped) return;
    fill(top, tiles(status, table, fleet));
    const rival = fleet.twin_cost_per_hour.some((v) => v !== null) ? fleet.twin_cost_per_hour
      : fleet.fallback_cost_per_hour;
    cost.set({ x: fleet.at, y: [fleet.cost_per_hour, rival] });
    // one upon the other: the whole height is all workloads
    const below = fleet.offline.map((v, i) => v + fleet.initialized[i]);
    const acting = below.map((v, i) => v + fleet.online[i]);
    stages.set({ x: fleet.at, y: [acting.map((v, i) => v + fleet.serving[i]), acting, below],
      raw: [fleet.serving, fleet.online, fleet.offline] });
    slo.set({ x: fleet.at, y: [fleet.missing_slo, fleet.twin_missing_slo] });
    load.set({ x: fleet.at, y: [fleet.arrivals_per_s] });
    const rows = rowsOf(table);
    fill(needs, rows.length ? attention(rows) : empty('There is no workload yet.'));
    fill(dear, rows.length ? dearest(rows) : empty('Nothing costs anything yet.'));
    const changed = audit.entries.filter((e) => e.changed && e.changed.length).slice(0, 10);
    fill(recent, changed.length ? h('ul', { class: 'list' }, changed.map((e) => decision(e, true)))
      : empty('Nothing has been changed yet. What is decided appears here, with its reason.'));
  }
  return { refresh, destroy() { stopped = true; for (const p of [cost, stages, slo, load]) p.destroy(); } };
}
