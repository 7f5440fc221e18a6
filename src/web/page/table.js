// table.js - workloads, one or ten thousand: rows exist only where they can be seen.

import { h, fill, icon, STAGE_WORDS } from './dom.js';
import * as format from './format.js';
import { get } from './data.js';

const ROW = 38; // px, as in page.css
const BEYOND = 4; // rows made beyond each edge, so that a quick scroll finds them
const STILL_MS = 400; // without scrolling, before the figures are asked for again

// "web-2" before "web-10".
const natural = new Intl.Collator('en', { numeric: true, sensitivity: 'base' }).compare;
export const byName = (rows) => {
  const sorted = [...rows].sort((a, b) => natural(a.name, b.name));
  sorted.forEach((row, i) => { row.order = i; });
  return sorted;
};

const share = (a, b) => (a === null || b === null || !b ? null : a / b);

// Rows out of the columns of /v1/table.
export function rowsOf(table) {
  const rows = [];
  for (let i = 0; i < table.total; i++) {
    const fallback = table.twin_cost_per_hour[i] ?? table.fallback_cost_per_hour[i];
    rows.push({
      name: table.name[i], lower: table.name[i].toLowerCase(), stage: table.stages[table.stage[i]],
      rank: table.stage[i], actor: table.actors[table.actor[i]], mode: table.modes[table.mode[i]],
      ready: table.ready[i], wanted: table.wanted[i], cpu: table.cpu_millicores[i],
      memory: table.memory_bytes[i], cpuUsed: table.cpu_used[i], memoryUsed: table.memory_used[i],
      load: table.arrivals_per_s[i], latency: table.latency_us[i], slo: table.slo_latency_us[i],
      near: share(table.latency_us[i], table.slo_latency_us[i]), missed: table.missed[i] === 1,
      missedShare: share(table.missed_steps[i], table.steps[i]), budget: table.slo_budget[i],
      cost: table.cost_per_hour[i], fallback,
      saving: table.saved[i],
      freeze: table.freeze[i], watchdog: table.watchdog[i] === 1, episodes: table.episodes[i],
      learning: table.learning[i] === 1, learns: table.learns_now[i] === 1, pending: table.pending[i], outcome: table.outcomes[table.outcome[i]],
    });
  }
  return byName(rows);
}

// Classes are touched only where they change: each touch makes the browser look for rules again.
function mark(element, name, on) {
  if (element.classList.contains(name) !== on) element.classList.toggle(name, on);
}
const meter = () => h('span', { class: 'meter' }, h('i', {}));
function setMeter(cell, value, text, bad) {
  cell.firstChild.firstChild.style.transform = `scaleX(${Math.min(1, value || 0)})`; // no layout
  mark(cell.firstChild, 'bad', !!bad);
  cell.lastChild.textContent = text;
}

// Each column: how it is sorted, made once, and set for every row that passes through.
const COLUMNS = [
  { key: 'name', title: 'Workload', class: 'c-name', value: (r) => r.order, text: true,
    make: () => [h('a', { tabindex: '-1', draggable: 'false' }), h('small', {}), h('span', { class: 'flags' })],
    set: (cell, r) => {
      const at = r.name.indexOf('/');
      cell.children[0].textContent = at < 0 ? r.name : r.name.slice(at + 1);
      cell.children[1].textContent = at < 0 ? '' : r.name.slice(0, at);
      const flags = [r.freeze && 'frozen', r.watchdog && 'held', r.pending && `${r.pending} pending`,
        r.learns && 'learning now', r.mode !== 'Auto' && r.mode.toLowerCase()]
        .filter(Boolean).join(' \u00b7 ');
      cell.children[2].textContent = flags;
    } },
  { key: 'stage', title: 'Stage', class: 'c-stage', value: (r) => r.rank, down: true,
    make: () => [h('span', { class: 'stage' })],
    set: (cell, r) => {
      if (cell.firstChild.textContent === r.stage) return;
      cell.firstChild.className = `stage ${r.stage}`;
      cell.firstChild.textContent = r.stage;
    } },
  { key: 'slo', title: 'Latency / SLO', class: 'c-slo', value: (r) => (r.missed ? 1e6 : 0) + (r.near ?? -1),
    down: true, make: () => [meter(), h('span', {})],
    set: (cell, r) => setMeter(cell, r.near, format.latencyOf(r.latency, r.slo), r.missed) },
  { key: 'missed', title: 'Missed', class: 'c-missed num', value: (r) => r.missedShare ?? -1, down: true,
    make: () => [h('span', {})],
    set: (cell, r) => {
      cell.firstChild.textContent = format.percent(r.missedShare, 2);
      mark(cell, 'bad', r.missedShare > r.budget);
    } },
  { key: 'load', title: 'Load', class: 'c-load num', value: (r) => r.load ?? -1, down: true,
    make: () => [h('span', {})], set: (cell, r) => { cell.firstChild.textContent = format.rate(r.load); } },
  { key: 'replicas', title: 'Replicas', class: 'c-replicas num', value: (r) => r.wanted, down: true,
    make: () => [h('span', {})],
    set: (cell, r) => {
      cell.firstChild.textContent = r.ready === r.wanted ? r.wanted : `${r.ready} / ${r.wanted}`;
    } },
  { key: 'cpu', title: 'CPU', class: 'c-cpu', value: (r) => r.cpuUsed ?? -1, down: true,
    make: () => [meter(), h('span', {})],
    set: (cell, r) => setMeter(cell, r.cpuUsed, `${format.percent(r.cpuUsed, 0)} of ${format.cores(r.cpu)}`,
      false) },
  { key: 'memory', title: 'Memory', class: 'c-memory', value: (r) => r.memoryUsed ?? -1, down: true,
    make: () => [meter(), h('span', {})],
    set: (cell, r) => setMeter(cell, r.memoryUsed,
      `${format.percent(r.memoryUsed, 0)} of ${format.bytes(r.memory)}`, false) },
  { key: 'cost', title: 'Cost', class: 'c-cost num', value: (r) => r.cost ?? -1, down: true,
    make: () => [h('span', {})], set: (cell, r) => { cell.firstChild.textContent = format.money(r.cost, '/h'); } },
  { key: 'saving', title: 'Saves', class: 'c-saving num', value: (r) => r.saving ?? -9, down: true,
    make: () => [h('span', {})],
    set: (cell, r) => {
      cell.firstChild.textContent = format.signed(r.saving, 0).replace(/^\+/, '');
      mark(cell, 'good', r.saving > 0.005);
      mark(cell, 'worse', r.saving < -0.005);
    } },
];

const kept = { query: '', stages: new Set(), only: 'all', sort: 'name', down: false, top: 0 };

const STAGES = ['initialized', 'offline', 'online', 'serving'];

export function view(root, app, parts, query) {
  if ([...query.keys()].length) { // a link says what is shown
    kept.query = query.get('find') || '';
    kept.stages = new Set((query.get('stage') || '').split(',').filter((s) => STAGES.includes(s)));
    kept.only = query.get('only') || 'all';
    kept.sort = COLUMNS.some((c) => c.key === query.get('sort')) ? query.get('sort') : 'name';
    kept.down = query.get('down') === '1';
  }
  const remember = () => app.keep({ find: kept.query, stage: [...kept.stages].join(','),
    only: kept.only === 'all' ? '' : kept.only, sort: kept.sort === 'name' ? '' : kept.sort,
    down: kept.down ? '1' : '' });
  let rows = [];
  let shown = [];
  let selected = 0;
  let stopped = false;
  let scrolled = 0;
  const pool = [];

  const search = h('input', { type: 'search', placeholder: 'Find a workload', value: kept.query,
    'aria-label': 'Find a workload', oninput: () => { kept.query = search.value; remember(); apply(); } });
  const only = h('select', { 'aria-label': 'Show', onchange: () => { kept.only = only.value; remember(); apply(); } },
    [['all', 'All'], ['missed', 'Missing the SLO now'], ['over', 'Over the SLO budget'],
      ['frozen', 'Frozen'], ['pending', 'Pods pending'], ['learns', 'Learning now'], ['held', 'Held by the watchdog'], ['dearer', 'More expensive than the fallback']]
      .map(([value, text]) => h('option', { value, selected: kept.only === value }, text)));
  const chips = h('div', { class: 'chips', role: 'group', 'aria-label': 'Stages' },
    STAGES.map((stage) => h('button', { type: 'button',
      class: `chip ${stage}`, title: STAGE_WORDS[stage], 'aria-pressed': kept.stages.has(stage) ? 'true' : 'false', onclick: (event) => {
        if (kept.stages.has(stage)) kept.stages.delete(stage); else kept.stages.add(stage);
        event.currentTarget.setAttribute('aria-pressed', kept.stages.has(stage) ? 'true' : 'false');
        remember();
        apply();
      } }, stage)));
  const count = h('span', { class: 'quiet count', role: 'status' });
  const head = h('div', { class: 'row head', role: 'row' }, COLUMNS.map((column) => h('div',
    { class: `cell ${column.class}`, role: 'columnheader' }, h('button', { type: 'button',
      data: { key: column.key }, onclick: () => sortBy(column) }, column.title))));
  const space = h('div', { class: 'space' });
  const body = h('div', { class: 'body' }, space);
  const frame = h('div', { class: 'table', role: 'grid', tabindex: '0', 'aria-label': 'Workloads',
    onscroll: () => { scrolled = performance.now(); paint(); }, onkeydown: keys }, head, body);
  fill(root, h('div', { class: 'title' }, h('h1', {}, 'Workloads'), count),
    h('div', { class: 'tools' }, h('label', { class: 'find' }, icon('search'), search), chips, only), frame);

  function sortBy(column) {
    kept.down = kept.sort === column.key ? !kept.down : !!column.down;
    kept.sort = column.key;
    remember();
    apply();
  }

  function apply() {
    const words = kept.query.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = { all: () => true, missed: (r) => r.missed, over: (r) => r.missedShare > r.budget,
      frozen: (r) => r.freeze > 0, pending: (r) => r.pending > 0, learns: (r) => r.learns, held: (r) => r.watchdog, dearer: (r) => r.saving < -0.005 }[kept.only] || (() => true);
    const name = shown[selected] && shown[selected].name;
    shown = rows.filter((r) => fits(r) && (!kept.stages.size || kept.stages.has(r.stage)) &&
      words.every((word) => r.lower.includes(word)));
    const column = COLUMNS.find((c) => c.key === kept.sort);
    const way = kept.down ? -1 : 1;
    shown.sort((a, b) => {
      const x = column.value(a);
      const y = column.value(b);
      return x < y ? -way : x > y ? way : a.order - b.order;
    });
    for (const button of head.querySelectorAll('button')) {
      const own = button.dataset.key === kept.sort;
      button.parentNode.setAttribute('aria-sort', own ? (kept.down ? 'descending' : 'ascending') : 'none');
    }
    selected = Math.max(0, shown.findIndex((r) => r.name === name));
    space.style.height = `${shown.length * ROW}px`;
    frame.setAttribute('aria-rowcount', shown.length);
    count.textContent = shown.length === rows.length ? `${format.integer(rows.length)}`
      : `${format.integer(shown.length)} of ${format.integer(rows.length)}`;
    for (const one of pool) one.at = -1;
    paint();
  }

  function makeRow() {
    const cells = COLUMNS.map((column) => h('div', { class: `cell ${column.class}`, role: 'gridcell' },
      column.make()));
    const link = h('div', { class: 'row item', role: 'row' }, cells);
    body.append(link);
    const one = { link, cells, at: -1, row: null };
    pool.push(one);
    return one;
  }

  // Row i always lives in the same element of the pool, so that scrolling sets only what came.
  function paint() {
    const first = Math.max(0, Math.floor((frame.scrollTop) / ROW) - BEYOND);
    const last = Math.min(shown.length, Math.ceil((frame.scrollTop + frame.clientHeight) / ROW) + BEYOND);
    const wanted = Math.ceil(frame.clientHeight / ROW) + 2 * BEYOND + 2;
    while (pool.length < Math.min(wanted, shown.length)) makeRow();
    const size = pool.length;
    for (let i = 0; i < size; i++) {
      const one = pool[i];
      const offset = (((i - first) % size) + size) % size;
      const at = first + offset;
      if (at >= last) {
        if (one.at !== -2) { one.link.style.display = 'none'; one.at = -2; }
        continue;
      }
      const row = shown[at];
      if (one.at !== at) {
        one.link.style.display = '';
        one.link.style.transform = `translateY(${at * ROW}px)`;
        one.link.setAttribute('aria-rowindex', at + 1);
        one.at = at;
        one.row = null;
      }
      if ((one.marked || false) !== (at === selected)) {
        one.marked = at === selected;
        one.link.classList.toggle('selected', one.marked);
      }
      if (one.row !== row) {
        one.row = row;
        one.cells[0].firstChild.href = `#/workload/${row.name}`;
        for (let c = 0; c < COLUMNS.length; c++) COLUMNS[c].set(one.cells[c], row);
      }
    }
    kept.top = frame.scrollTop;
  }

  function keys(event) {
    const page = Math.max(1, Math.floor(frame.clientHeight / ROW) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -shown.length,
      End: shown.length };
    if (event.target !== frame) return;
    if (event.key === 'Enter' && shown[selected]) location.hash = `#/workload/${shown[selected].name}`;
    if (!(event.key in moves)) return;
    event.preventDefault();
    selected = Math.max(0, Math.min(shown.length - 1, selected + moves[event.key]));
    const top = selected * ROW;
    const view = frame.clientHeight - ROW;
    if (top < frame.scrollTop) frame.scrollTop = top;
    else if (top + ROW > frame.scrollTop + view) frame.scrollTop = top + ROW - view;
    paint();
  }

  const observer = new ResizeObserver(() => paint());
  observer.observe(frame);

  async function refresh() {
    if (performance.now() - scrolled < STILL_MS && rows.length) return; // being read: nothing moves
    const table = await get('/v1/table');
    if (stopped) return;
    const fresh = rows.length === 0;
    rows = rowsOf(table);
    apply();
    if (fresh) frame.scrollTop = kept.top;
  }
  app.title('Workloads');
  return { refresh, destroy() { stopped = true; observer.disconnect(); } };
}
