// workload.js - one workload: what it has, what it does, who decides, and why.

import { h, fill, icon, empty, card, terms, stageBadge, tile } from './dom.js';
import * as format from './format.js';
import { get, getText, workloadPath } from './data.js';
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
  const { slo } = w;
  const missed = series.since_start.steps ? series.since_start.missed_steps / series.since_start.steps : null;
  return [
    tile('Latency', format.latency(w.latency_us), slo.latency_us === null ? 'there is no SLO for it'
      : `of ${format.latency(slo.latency_us)} at p${Math.round(100 * slo.quantile)}`,
    'How long a request takes, at the quantile that the SLO names; red while the SLO is missed.',
    slo.missed ? 'bad' : slo.missed === false ? 'good' : ''),
    tile('SLO missed', format.percent(missed, 2), `of ${format.integer(series.since_start.steps)} steps; ` +
      `${format.percent(slo.budget, 0)} may${beside
        ? `; fallback alone ${format.percent(beside.twin_missed_steps / beside.steps, 2)}` : ''}`,
    'Steps since the start that missed the SLO, against the share that the profile allows.',
    missed > slo.budget ? 'bad' : 'good'),
    tile('Replicas', w.replicas.ready === w.replicas.wanted ? w.replicas.wanted ?? '\u2013'
      : `${w.replicas.ready} / ${w.replicas.wanted}`,
    `${[format.cores(w.cpu_millicores), ...format.others(w, Object.keys(w.bounds || {})),
      format.bytes(w.memory_bytes)].join(', ').replace(/, ([^,]*)$/, ' and $1')} each; ` +
      `${w.replicas.min} to ${w.replicas.max}${w.replicas.pending ? `; the cluster is full: ${w.replicas.pending} ` +
        `${w.replicas.pending === 1 ? 'pod' : 'pods'} pending` : ''}`,
    'Replicas that are ready, of those wanted, with the size of each and the bounds of the profile.',
    w.replicas.pending ? 'bad' : ''),
    tile('Used', format.percent(w.cpu_used, 0), `of its CPU, ${format.percent(w.memory_used, 0)} of its memory, ` +
      `at ${format.rate(w.arrivals_per_s)}`, 'How much of what the replicas have is used.'),
    tile('Cost', format.money(w.cost_per_hour, '/h'), saving === null || !beside
      ? `the fallback's plan: ${format.money(w.fallback_cost_per_hour, '/h')}`
      : `${format.percent(Math.abs(saving), 1)} ${saving < 0 ? 'more' : 'less'} than the fallback alone since the start`,
    'What its replicas cost an hour now, and what that saves.',
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
    h('div', {}, h('h3', {}, 'Seen'), terms(inputs)),
    h('div', {}, h('h3', {}, 'Wanted'), terms([wants(account.agent) || ['agent', 'no policy yet'],
      wants(account.fallback)]), account.fallback && h('p', { class: 'quiet' }, account.fallback.reason),
    h('h3', {}, 'Rails'), account.guard.rails.length
      ? h('ul', { class: 'rails' }, account.guard.rails.map((rail) => h('li', {}, h('b', {}, rail.rail),
        h('span', {}, `${rail.clipped.join(', ')} ${rail.sentence}`))))
      : h('p', { class: 'quiet' }, 'none made a difference'),
    account.watchdog.verdict !== 'pass' && h('p', { class: 'wrong' }, account.watchdog.sentence)),
    h('div', {}, h('h3', {}, 'What moved it'), reasons.length
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

// --- time ranges -----------------------------------------------------------------------------------

const RANGES = { '1h': ['1 hour', 3600], '6h': ['6 hours', 21600], '1d': ['1 day', 86400], '7d': ['7 days', 604800],
  '30d': ['30 days', 2592000] };
const OLD_ROWS = 10000; // rows of the store that one answer brings
const OLD_PAGES = 20; // answers that one look into the past may take

const STORED = { arrivals_per_s: 'arrivals_per_s', latency_us_p99: 'latency_us', cpu_utilisation: 'cpu_used',
  memory_utilisation: 'memory_used', cpu_millicores: 'cpu_millicores', memory_bytes: 'memory_bytes',
  replicas: 'wanted', paper_reward: 'reward', violated: 'missed' };

// Steps of the store, older than what the daemon has in memory, in the columns of a series. What a step
// does not keep (the twin, rails, who waited) is null there.
export function stored(rows, like) {
  const found = { at: [] };
  for (const [key, column] of Object.entries(like)) {
    if (Array.isArray(column) && column.length === like.at.length && typeof column[0] !== 'string') found[key] = [];
  }
  const index = (names, name) => Math.max(0, names.indexOf(name));
  let before = null;
  for (const row of rows) {
    for (const key of Object.keys(found)) found[key].push(null);
    const last = found.at.length - 1;
    found.at[last] = row.at_us / 1e6;
    for (const [from, to] of Object.entries(STORED)) if (found[to]) found[to][last] = row[from] ?? null;
    found.ready[last] = row.replicas;
    found.cost_per_hour[last] = (3600 * row.cost) / like.step_s;
    found.stage[last] = index(like.stages, row.stage);
    found.actor[last] = index(like.actors, row.actor);
    const moved = before && (before.replicas !== row.replicas || before.cpu_millicores !== row.cpu_millicores ||
      before.memory_bytes !== row.memory_bytes);
    found.outcome[last] = index(like.outcomes, moved ? 'applied' : 'unchanged');
    found.held_by[last] = 0;
    found.tripped[last] = 0;
    before = row;
  }
  return found;
}

// Pages of the store from `since` on, up to `until`, both in seconds.
async function older(name, since, until, stop) {
  const rows = [];
  let after = '';
  for (let page = 0; page < OLD_PAGES && !stop(); page++) {
    const { text, next } = await getText(`/v1/export?what=trajectories&workload=${encodeURIComponent(name)}` +
      `&since=${new Date(1000 * Math.max(0, since)).toISOString()}&limit=${OLD_ROWS}${after}`, undefined, true);
    const got = text.split('\n').filter(Boolean).map(JSON.parse);
    rows.push(...got.filter((row) => row.at_us / 1e6 < until));
    if (!next || (got.length && got[got.length - 1].at_us / 1e6 >= until)) return { rows, whole: true };
    after = `&after=${encodeURIComponent(next)}`;
  }
  return { rows, whole: false };
}

// `series` from second `from` on; at most POINTS of them, means of neighbours where there are more.
function within(series, past, from) {
  const columns = Object.keys(past || series).filter((key) => Array.isArray(series[key]) &&
    series[key].length === series.at.length && typeof series[key][0] !== 'string');
  const cut = { ...series };
  for (const key of columns) cut[key] = [...(past ? past[key] || [] : []), ...series[key]];
  const first = Math.max(0, cut.at.findIndex((at) => at >= from));
  const step = Math.ceil((cut.at.length - first) / POINTS);
  const kept = new Set(['stage', 'actor', 'outcome', 'held_by', 'at', 'wanted', 'ready', 'fallback_replicas']);
  for (const key of columns) {
    const whole = cut[key].slice(first);
    if (step <= 1) { cut[key] = whole; continue; }
    cut[key] = Array.from({ length: Math.ceil(whole.length / step) }, (_, i) => {
      const part = whole.slice(i * step, (i + 1) * step).filter((v) => v !== null);
      if (key === 'missed' || key === 'tripped') return Math.max(0, ...part);
      if (key === 'outcome') return part.find((v) => series.outcomes[v] === 'applied') ?? part[0];
      return !part.length ? null : kept.has(key) ? part[part.length - 1] : part.reduce((a, b) => a + b, 0) / part.length;
    });
  }
  return cut;
}

export function view(root, app, [namespace, workload, what, id], query) {
  const name = `${namespace}/${workload}`;
  const base = workloadPath(name);
  const p = panels();
  let stopped = false;
  let series = null;
  let past = null; // of the store, before what the daemon has in memory
  let range = RANGES[query.get('range')] ? query.get('range') : 'live';
  let asked = 0;
  let open = what === 'decision' ? Number(id) : null;
  const depth = h('span', { class: 'quiet', role: 'status' });
  const ranges = h('div', { class: 'switch', role: 'group', 'aria-label': 'Time range' },
    [['live', ['Since start']], ...Object.entries(RANGES)].map(([key, [text]]) => h('button', { type: 'button',
      'aria-pressed': `${key === range}`, data: { range: key }, onclick: (event) => {
        range = key;
        app.keep({ range: range === 'live' ? '' : range });
        for (const button of ranges.children) button.setAttribute('aria-pressed', `${button === event.currentTarget}`);
        past = null;
        look();
      } }, text)));
  // What the range asks for beyond memory comes out of the store, once; then the present goes on.
  async function look() {
    const mine = ++asked;
    depth.textContent = '';
    if (!series || !series.at.length) return;
    draw(p, shown());
    if (range === 'live') return;
    const from = series.at[series.at.length - 1] - RANGES[range][1];
    if (series.at[0] <= from) return;
    depth.textContent = 'Reading the store\u2026';
    try {
      const found = await older(name, from, series.at[0], () => stopped || mine !== asked);
      if (stopped || mine !== asked) return;
      past = stored(found.rows, series);
      depth.textContent = found.rows.length ? `from the store: ${format.integer(found.rows.length)} older steps` +
        `${found.whole ? '' : ', the newest are missing'}` : 'the store has nothing older';
    } catch (error) {
      if (mine === asked) depth.textContent = `Nothing older: ${error.message}`;
      return;
    }
    draw(p, shown());
  }
  const shown = () => (range === 'live' ? series
    : within(series, past, series.at[series.at.length - 1] - RANGES[range][1]));
  const head = h('div', { class: 'title' });
  const stageText = h('p', { class: 'stage-words' });
  const why = h('p', { class: 'sentence' });
  const top = h('div', { class: 'tiles' });
  const state = h('div', {});
  const more = h('div', {});
  const history = h('div', {});
  let all = false;
  let drawn = false;
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
  fill(root, head, stageText, why, top, h('div', { class: 'tools' }, ranges, depth), bands, h('div', { class: 'grid' }, [p.load, p.latency, p.replicas, p.limits, p.used,
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
    stageText.textContent = `${w.stage_words ? format.sentence(w.stage_words) : ''}${w.learns_now
      ? ' Learning now: a round is under way beside the ticks.' : ''}`;
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
    const first = !drawn && range !== 'live';
    drawn = true;
    draw(p, shown());
    if (first) look();
    entries = past.entries;
    paintHistory();
    if (what === 'decision' && open) {
      const found = document.getElementById(`decision-${open}`);
      if (found) { found.scrollIntoView({ block: 'center' }); what = null; }
    }
  }
  return { refresh, destroy() { stopped = true; for (const one of Object.values(p)) one.destroy(); } };
}
