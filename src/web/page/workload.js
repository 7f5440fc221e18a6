// workload.js - one workload: what it has, what it does, who decides, and why.

import { h, fill, icon, empty, card, terms, stageBadge } from './dom.js';
import * as format from './format.js';
import { get, workloadPath } from './data.js';
import { panel, smooth } from './plot.js';
import { buttons } from './orders.js';
import { change, reasonOf } from './overview.js';

const POINTS = 1440;
const GIB = 1073741824;

function panels() {
  const sync = 'workload';
  const cores = (v) => format.number(v);
  return {
    load: panel({ title: 'Load', axis: format.number, sync, series: [
      { label: 'requests', colour: 'load', fill: true, format: format.rate }] }),
    latency: panel({ title: 'Latency against the SLO', axis: (v) => format.latency(v), sync,
      log: (data) => {
        const slo = data.y[1].find((v) => v !== null);
        return !!slo && data.y[0].some((v) => v > 8 * slo);
      },
      ceiling: (data, high) => Math.max(high ?? 0, ...(data.y[1].slice(0, 1))), series: [
        { label: 'p99', colour: 'aware' }, { label: 'SLO', colour: 'bad', dash: [6, 4], width: 1.25 },
        { label: 'fallback alone', colour: 'twin', width: 1.25 }] }),
    replicas: panel({ title: 'Replicas', axis: (v) => (Number.isInteger(v) ? v : ''), sync, series: [
      { label: 'wanted', colour: 'aware', step: true, format: format.integer },
      { label: 'ready', colour: 'serving', step: true, format: format.integer, width: 1.25 },
      { label: 'fallback alone', colour: 'twin', step: true, dash: [5, 4], format: format.integer }] }),
    limits: panel({ title: 'Limits of a replica', axis: cores, axis2: (v) => format.bytes(v * GIB), sync,
      series: [{ label: 'CPU (left, cores)', colour: 'aware', step: true,
        format: (v) => format.cores(v === null ? null : 1000 * v) },
      { label: 'memory (right)', colour: 'scenario', step: true, scale: 'y2',
        format: (v) => format.bytes(v === null ? null : v * GIB) }] }),
    used: panel({ title: 'Utilisation', axis: (v) => format.percent(v, 0), sync, ceiling: () => 1, series: [
      { label: 'CPU', colour: 'aware' }, { label: 'memory', colour: 'scenario' }] }),
    cost: panel({ title: 'Cost', axis: format.price, sync, series: [
      { label: 'AWARE', colour: 'aware', step: true, fill: true, format: (v) => format.money(v, '/h') },
      { label: 'fallback alone', colour: 'twin', dash: [5, 4], format: (v) => format.money(v, '/h') }] }),
    reward: panel({ title: 'Reward', note: 'of 2 per step, mean of 20', sync, axis: format.number,
      floor: (data, low) => Math.max(0, (low ?? 0) - 0.1), series: [
        { label: 'AWARE', colour: 'aware' }, { label: 'fallback alone', colour: 'twin', dash: [5, 4] }] }),
    guard: panel({ title: 'Guard rails', note: 'rails that held something back, and what was changed', sync,
      axis: (v) => (Number.isInteger(v) ? v : ''), ceiling: (data, high) => Math.max(2, high ?? 2), series: [
        { label: 'rails', colour: 'offline', step: true, fill: true, format: format.integer }] }),
  };
}

function bits(mask, names, without) {
  return names.filter((name, i) => (mask & (1 << i)) && name !== without);
}

function marksOf(series) {
  const marks = [];
  for (let i = 0; i < series.at.length; i++) {
    if (series.outcomes[series.outcome[i]] === 'applied' && i > 0) {
      const up = series.wanted[i] * series.cpu_millicores[i] > series.wanted[i - 1] * series.cpu_millicores[i - 1];
      marks.push({ index: i, kind: up ? 'up' : 'down', colour: up ? 'aware' : 'serving',
        text: `changed by ${series.actors[series.actor[i]]}` });
    }
    if (series.tripped[i]) {
      marks.push({ index: i, kind: 'line', colour: 'bad', text: 'the watchdog took control from the agent' });
    }
  }
  return marks;
}

function draw(p, series) {
  const x = series.at;
  const stages = series.stage;
  const marks = marksOf(series);
  const trips = marks.filter((mark) => mark.kind === 'line');
  const twin = series.twin_replicas.some((v) => v !== null);
  const rival = (a, b) => (twin ? a : b);
  const rails = series.held_by.map((mask) => bits(mask, series.rails, 'deadband').length);
  const set = (name, y, extra) => p[name].set({ x, y, stages, marks: trips, ...extra });
  set('load', [series.arrivals_per_s]);
  set('latency', [series.latency_us, x.map(() => series.slo_latency_us), series.twin_latency_us], { marks: [
    ...trips, ...series.missed.flatMap((missed, index) => (missed ? [{ index, kind: 'dot', colour: 'bad',
      text: 'missed the SLO' }] : []))] });
  set('replicas', [series.wanted, series.ready, rival(series.twin_replicas, series.fallback_replicas)], { marks });
  set('limits', [series.cpu_millicores.map((v) => (v === null ? null : v / 1000)),
    series.memory_bytes.map((v) => (v === null ? null : v / GIB))]);
  set('used', [series.cpu_used, series.memory_used]);
  set('cost', [series.cost_per_hour, rival(series.twin_cost_per_hour, series.fallback_cost_per_hour)]);
  set('reward', [smooth(series.reward, 20), smooth(series.twin_reward, 20)]);
  set('guard', [rails], { marks: [...marks, ...series.held_by.flatMap((mask, index) => {
    const names = bits(mask, series.rails, 'deadband');
    return names.length ? [{ index, kind: 'none', text: names.join(', ') }] : [];
  })].filter((mark) => mark.kind !== 'none' || mark.text) });
}

const TITLES = { Ready: 'Ready', FiguresFresh: 'Figures fresh', SloMet: 'SLO met', AbleToScale: 'Free to act',
  Frozen: 'Not frozen', AgentTrusted: 'Agent trusted' };
function conditions(list) {
  return h('ul', { class: 'conditions' }, list.map((one) => h('li', { class: one.ok ? 'ok' : 'not' },
    icon(one.ok ? 'check' : 'cross'), h('b', {}, TITLES[one.type] || one.type),
    h('span', {}, one.message))));
}

function summary(w, series) {
  const beside = series.since_start.beside_twin;
  const saving = w.saved;
  const tile = (label, value, note, kind) => h('div', { class: `tile ${kind || ''}` },
    h('span', { class: 'label' }, label), h('strong', {}, value), h('span', { class: 'note' }, note));
  const { slo } = w;
  const missed = series.since_start.steps ? series.since_start.missed_steps / series.since_start.steps : null;
  return [
    tile('Latency', format.latency(w.latency_us), slo.latency_us === null ? 'there is no SLO for it'
      : `of ${format.latency(slo.latency_us)} at p${Math.round(100 * slo.quantile)}`,
    slo.missed ? 'bad' : slo.missed === false ? 'good' : ''),
    tile('SLO missed', format.percent(missed, 2), `of ${format.integer(series.since_start.steps)} steps; ` +
      `${format.percent(slo.budget, 0)} may${beside
        ? `; fallback alone ${format.percent(beside.twin_missed_steps / beside.steps, 2)}` : ''}`,
    missed > slo.budget ? 'bad' : 'good'),
    tile('Replicas', w.replicas.ready === w.replicas.wanted ? w.replicas.wanted ?? '\u2013'
      : `${w.replicas.ready} / ${w.replicas.wanted}`,
    `${[format.cores(w.cpu_millicores), ...format.others(w, Object.keys(w.bounds || {})),
      format.bytes(w.memory_bytes)].join(', ').replace(/, ([^,]*)$/, ' and $1')} each; ` +
      `${w.replicas.min} to ${w.replicas.max}`),
    tile('Used', format.percent(w.cpu_used, 0), `of its CPU, ${format.percent(w.memory_used, 0)} of its memory, ` +
      `at ${format.rate(w.arrivals_per_s)}`),
    tile('Cost', format.money(w.cost_per_hour, '/h'), saving === null || !beside
      ? `the fallback's plan: ${format.money(w.fallback_cost_per_hour, '/h')}`
      : `${format.percent(saving, 1)} less than the fallback alone since the start`,
    saving > 0.005 ? 'good' : saving < -0.005 ? 'bad' : ''),
  ];
}

function planText(plan) {
  if (!plan || !Object.keys(plan).length) return 'nothing';
  return [plan.replicas !== undefined && `${plan.replicas} replicas`,
    plan.cpu_millicores !== undefined && format.cores(plan.cpu_millicores),
    plan.memory_bytes !== undefined && format.bytes(plan.memory_bytes), ...format.others(plan)]
    .filter(Boolean).join(', ');
}

const UNITS = { us: format.latency, bytes: format.bytes, share: (v) => format.percent(v, 0), cores: (v) =>
  format.cores(v === null ? null : 1000 * v), 'requests/s': format.rate, 'bytes/s': (v) => `${format.bytes(v)}/s` };

// The account of one decision, in the order in which it came about.
function explained(told) {
  const { account, detail } = told;
  if (!account) return empty('The journal has forgotten this decision; the entry above is what is left.');
  const inputs = Object.entries(account.inputs).map(([name, input]) => [name.replace(/_/g, ' '),
    (UNITS[input.unit] || format.number)(input.value)]);
  const reasons = detail && detail.reasons ? detail.reasons.filter((r) => Math.abs(r.effect) > 1e-6) : [];
  const largest = Math.max(1e-9, ...reasons.map((r) => Math.abs(r.effect)));
  const wants = (who) => (who ? [`${who.kind}`, planText(who.plan)] : null);
  return h('div', { class: 'account' },
    h('div', {}, h('h4', {}, 'Seen'), terms(inputs)),
    h('div', {}, h('h4', {}, 'Wanted'), terms([wants(account.agent) || ['agent', 'there is none yet'],
      wants(account.fallback)]), account.fallback && h('p', { class: 'quiet' }, account.fallback.reason),
    h('h4', {}, 'Rails'), account.guard.rails.length
      ? h('ul', { class: 'rails' }, account.guard.rails.map((rail) => h('li', {}, h('b', {}, rail.rail),
        h('span', {}, `${rail.clipped.join(', ')} ${rail.sentence}`))))
      : h('p', { class: 'quiet' }, 'none made a difference'),
    account.watchdog.verdict !== 'pass' && h('p', { class: 'wrong' }, account.watchdog.sentence)),
    h('div', {}, h('h4', {}, 'What moved it'), reasons.length
      ? h('ul', { class: 'pushes' }, reasons.slice(0, 6).map((r) => h('li', {}, h('span', {},
        r.input.replace(/_/g, ' ')), h('i', { style: { width: `${100 * Math.abs(r.effect) / largest}%` } }))))
      : h('p', { class: 'quiet' }, told.detail_error || 'no single figure, changed a little, would have changed it'),
    detail && detail.predicted && terms([
      ['latency, as it was', format.latency(detail.predicted.before.latency_us)],
      ['latency, as decided', format.latency(detail.predicted.after.latency_us)],
      ['cost, as it was', format.money(detail.predicted.before.cost_per_hour, '/h')],
      ['cost, as decided', format.money(detail.predicted.after.cost_per_hour, '/h')]]),
    detail && detail.replayed && h('p', { class: 'quiet' }, detail.replayed.same === false
      ? 'Taken again it comes out differently.' : 'Taken again from its moment, it is the same decision.')));
}

export function view(root, app, [namespace, workload, what, id]) {
  const name = `${namespace}/${workload}`;
  const base = workloadPath(name);
  const p = panels();
  let stopped = false;
  let series = null;
  let open = what === 'decision' ? Number(id) : null;
  const head = h('div', { class: 'title' });
  const why = h('p', { class: 'sentence' });
  const top = h('div', { class: 'tiles' });
  const state = h('div', {});
  const more = h('div', {});
  const history = h('div', {});
  let all = false;
  let entries = [];
  const filter = h('div', { class: 'switch', role: 'group', 'aria-label': 'Which decisions' }, [['Changes', false],
    ['All that is notable', true]].map(([text, value]) => h('button', { type: 'button', 'aria-pressed': `${value === all}`,
    onclick: (event) => {
      all = value;
      for (const button of filter.children) button.setAttribute('aria-pressed', `${button === event.currentTarget}`);
      newest = -1;
      paintHistory();
    } }, text)));
  const bands = h('div', { class: 'bands' }, ['offline', 'online', 'serving'].map((s) => h('span', {},
    h('i', { class: s }), s)), h('span', {}, h('i', { class: 'tri' }), 'changed'),
  h('span', {}, h('i', { class: 'dot' }), 'missed the SLO'), h('span', {}, h('i', { class: 'trip' }), 'watchdog'));
  fill(root, head, why, top, bands, h('div', { class: 'grid' }, [p.load, p.latency, p.replicas, p.limits, p.used,
    p.cost, p.reward, p.guard].map((one) => one.root)),
  h('div', { class: 'grid' }, card('State', null, state), card('Limits and trials', null, more)),
  h('section', { class: 'card' }, h('div', { class: 'head' }, h('h2', {}, 'Decisions'), h('span', { class: 'quiet' },
    'open one for its reasons'), h('span', { class: 'grow' }), filter), history));
  app.title(name);

  function keep(fresh) {
    if (!series || fresh.at.length >= POINTS || !fresh.at.length) { if (fresh.at.length || !series) series = fresh; return; }
    const last = series.at.length ? series.at[series.at.length - 1] : -1;
    const from = fresh.at.findIndex((at) => at > last);
    const merged = { ...fresh };
    for (const key of Object.keys(fresh)) {
      if (!Array.isArray(fresh[key]) || fresh[key].length !== fresh.at.length || !Array.isArray(series[key]) ||
        typeof fresh[key][0] === 'string') continue;
      merged[key] = [...series[key], ...(from < 0 ? [] : fresh[key].slice(from))].slice(-fresh.points_max);
    }
    series = merged;
  }

  const told = new Map();
  function entryOf(entry) {
    const body = h('div', { class: 'body' });
    const details = h('details', { open: entry.seq === open, id: `decision-${entry.seq}`, ontoggle: async () => {
      if (!details.open || body.childNodes.length) return;
      open = entry.seq;
      if (!told.has(entry.seq)) {
        fill(body, h('p', { class: 'quiet' }, 'Asking why\u2026'));
        try {
          told.set(entry.seq, await get(`${base}/explain?decision=${entry.seq}`));
        } catch (error) { fill(body, empty(error.message)); return; }
      }
      fill(body, explained(told.get(entry.seq)));
    } }, h('summary', {}, icon('right'), h('span', { class: 'top' }, h('time', {}, format.when(entry.at)),
      h('span', { class: 'quiet' }, `#${entry.seq}`),
      entry.actor && h('span', { class: `actor ${entry.actor}` }, entry.actor),
      entry.stage && stageBadge(entry.stage), entry.from ? change(entry) : h('b', {}, entry.kind)),
    h('span', { class: 'why' }, reasonOf(entry.why || entry.reason || entry.result || ''))), body);
    return h('li', {}, details);
  }

  let newest = -1;
  function paintHistory() {
    const shown = entries.filter((e) => e.seq === open || (e.kind !== 'outcome' &&
      (all || e.kind !== 'decision' || (e.changed && e.changed.length)))).slice(0, 40);
    const first = shown.length ? shown[0].seq : 0;
    if (first === newest) return; // what is open stays open
    newest = first;
    fill(history, shown.length ? h('ul', { class: 'decisions' }, shown.map(entryOf))
      : empty(entries.length ? 'Nothing has been changed lately.' : 'Nothing notable has been decided yet.'));
  }

  function paint(w) {
    fill(head, h('h1', {}, h('small', {}, `${w.namespace} / `), w.workload), stageBadge(w.stage),
      h('span', { class: `actor ${w.actor || 'nobody'}` }, w.actor ? `${w.actor} acts` : 'nobody has acted yet'),
      w.mode !== 'Auto' && h('span', { class: 'pill' }, w.mode), w.freeze !== 'none' && h('span',
        { class: 'pill warn' }, w.freeze === 'all' ? 'frozen' : 'frozen for scaling down'),
      h('span', { class: 'grow' }), buttons(w, () => refresh()));
    why.textContent = w.why;
    fill(top, summary(w, series));
    fill(state, conditions(w.conditions));
    const cool = w.budgets.cooldown_left_s;
    const began = w.decision && w.decision.agent && w.decision.agent.specialised_from;
    const waits = Object.entries(cool).filter(([, left]) => left > 0)
      .map(([key, left]) => `${key.replace('_', ' ')} ${format.duration(left)}`);
    fill(more, terms([
      ['restarts left', `${w.budgets.restarts_left.grow} to grow, ${w.budgets.restarts_left.shrink} to shrink, ` +
        `within ${format.duration(w.budgets.restarts_left.window_s)}`],
      ['cool-down', waits.length ? waits.join(', ') : 'over'],
      ['watchdog', `${w.watchdog_reason}; ${w.budgets.watchdog_trips} trips`],
      ['memory floor', w.budgets.oom_floor_bytes ? format.bytes(w.budgets.oom_floor_bytes) : 'none'],
      ['agent', `${w.agent}${w.model ? ` ${w.model}` : ', no policy yet'}`],
      began && ['began at', `the shared model ${began.model}, known by ${began.episodes} episodes of the fallback`],
      ['fallback', w.fallback],
      ['estimate', w.estimate && w.estimate.mean !== null ? `${format.number(w.estimate.mean)} per episode, ` +
        `${format.number(w.estimate.low)} to ${format.number(w.estimate.high)}` : 'none yet'],
      w.canary && w.canary.sentence && ['trial', w.canary.sentence],
      ['prices', `${format.money(w.prices.core_hour)} a core-hour, ${format.money(w.prices.gib_hour)} a GiB-hour` +
        Object.keys(w.prices).filter((key) => key !== 'core_hour' && key !== 'gib_hour').map((key) => `, ${format.money(w.prices[key])} a ${key.replaceAll('_', '-')}`).join('')]]),
    h('p', {}, h('a', { href: `#/training/${name}` }, 'How it learns')));
  }

  async function refresh() {
    const since = series && series.at.length
      ? `?since=${new Date(1000 * series.at[series.at.length - 1]).toISOString()}` : '';
    const [w, fresh, past] = await Promise.all([get(base), get(`${base}/series${since}`),
      get(`${base}/history?limit=200`)]);
    if (stopped) return;
    keep(fresh);
    paint(w);
    draw(p, series);
    entries = past.entries;
    paintHistory();
    if (what === 'decision' && open) {
      const found = document.getElementById(`decision-${open}`);
      if (found) { found.scrollIntoView({ block: 'center' }); what = null; }
    }
  }
  return { refresh, destroy() { stopped = true; for (const one of Object.values(p)) one.destroy(); } };
}
