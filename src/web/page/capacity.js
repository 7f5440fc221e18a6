// capacity.js - who holds, asks for, gets, lends and borrows what of a shared cluster, and what if.

import { h, fill, card, tile } from './dom.js';
import * as format from './format.js';
import { get } from './data.js';

const LOST_MAX = 12; // workloads that a what-if names
const amount = (cores) => `${format.number(cores)} ${cores === 1 ? 'core' : 'cores'}`;
const both = (a) => [format.number(a.cpu_cores), a.memory_bytes > 0 && h('small', {}, format.bytes(a.memory_bytes))];
const none = (a) => !a.cpu_cores && !a.memory_bytes;

function tiles(c) {
  const missing = c.missing.cpu_cores;
  const free = Math.max(0, c.capacity.cpu_cores - c.held.cpu_cores);
  return [
    tile('Capacity', amount(c.capacity.cpu_cores), format.bytes(c.capacity.memory_bytes),
      'What all nodes together have for workloads.'),
    tile('Held', amount(c.held.cpu_cores), `${format.percent(c.held.cpu_cores / c.capacity.cpu_cores, 0)} of the ` +
      `cluster; ${amount(free)} free`, 'What the workloads have now, replicas times their size.'),
    tile('Asked', amount(c.asked.cpu_cores), format.bytes(c.asked.memory_bytes),
      'What the workloads want now, to meet their SLOs.'),
    tile('Missing for all SLOs', amount(missing), missing > 0 ? 'not every workload gets what it asks for'
      : 'every workload gets what it asks for',
    'Cores asked for that the cluster cannot give: add this much to meet every SLO.', missing > 0 ? 'bad' : 'good'),
    tile('Pending', format.integer(c.pending), c.pending ? 'pods wait for a node with room' : 'no pod waits for a node',
      'Pods that were created and that no node has room for.', c.pending ? 'bad' : 'good'),
  ];
}

function tenants(c) {
  const most = Math.max(c.capacity.cpu_cores, ...c.tenants.map((t) => t.asks.cpu_cores), 1e-9);
  return h('table', {}, h('thead', {}, h('tr', {}, [
    ['Tenant', 'A tenant, or a workload that belongs to none.'], ['Guarantee', 'What it gets whenever it asks for it.'],
    ['Holds', 'What its workloads have now.'], ['Asks', 'What its workloads want.'],
    ['Gets', 'What it is given in this tick.'], ['Lends', 'Its share or guarantee that others use now.'],
    ['Borrows', 'What it has beyond its share; taken back when it is wanted.'],
    ['Share', 'Its part of the resource that it has most of.'], ['', 'Held and asked of the cluster\u2019s cores.']]
    .map(([text, means]) => h('th', { scope: 'col', title: means, class: text && text !== 'Tenant' ? 'num' : '' },
      text || h('span', { class: 'unseen' }, 'Held and asked'))))),
  h('tbody', {}, c.tenants.map((t) => h('tr', {}, h('th', { scope: 'row' }, t.name,
    h('small', {}, `weight ${format.number(t.weight)}${t.priority ? `, priority ${t.priority}` : ''}`)),
  [t.guarantee, t.holds, t.asks, t.gets, t.lends, t.borrows].map((a, i) => h('td', { class: 'num' },
    none(a) && i !== 1 ? '\u2013' : both(a))), h('td', { class: 'num' }, format.percent(t.share, 0)),
  h('td', {}, h('span', { class: 'bars', role: 'img',
    'aria-label': `${t.name} holds ${amount(t.holds.cpu_cores)} and asks for ${amount(t.asks.cpu_cores)}` },
  h('i', { class: 'own', style: { width: `${100 * t.holds.cpu_cores / most}%` } }),
  h('i', { class: 'rival', style: { width: `${100 * t.asks.cpu_cores / most}%` } })))))));
}

function workloads(c) {
  const cut = (w) => w.asked > w.got;
  const rows = [...c.workloads].sort((a, b) => cut(b) - cut(a) || b.slo_missed - a.slo_missed);
  return h('table', {}, h('thead', {}, h('tr', {}, ['Workload', 'Tenant', 'Asked', 'Got', 'Why']
    .map((text) => h('th', { scope: 'col', class: text === 'Asked' || text === 'Got' ? 'num' : '' }, text)))),
  h('tbody', {}, rows.slice(0, 200).map((w) => h('tr', {}, h('th', { scope: 'row' }, h('a',
    { href: `#/workload/${w.name}` }, w.name)), h('td', {}, w.tenant || '\u2013'), h('td', { class: 'num' }, w.asked),
  h('td', { class: `num ${cut(w) ? 'bad' : ''}` }, w.got), h('td', {}, w.sentence,
    w.wait_s > 0 && `, in ${format.duration(w.wait_s)}`, w.slo_missed && h('span', { class: 'wrong' },
      ' misses its SLO now'))))));
}

function whatIf(w, minus) {
  const lost = w.would_lose;
  const nodes = minus === 1 ? 'one node less' : `${minus} nodes less`;
  return [h('p', {}, `With ${nodes} the cluster has ${amount(w.capacity.cpu_cores)}; `,
    w.missing.cpu_cores > 0 ? h('b', { class: 'wrong' }, `${amount(w.missing.cpu_cores)} would be missing.`)
      : h('b', { class: 'good' }, 'every workload would still get what it asks for.')),
  lost.length > 0 && h('table', {}, h('thead', {}, h('tr', {}, ['Would shrink', 'Replicas now', 'Then']
    .map((text, i) => h('th', { scope: 'col', class: i ? 'num' : '' }, text)))),
  h('tbody', {}, lost.slice(0, LOST_MAX).map((one) => h('tr', {}, h('th', { scope: 'row' }, one.name),
    h('td', { class: 'num' }, one.target), h('td', { class: 'num' }, one.would_be))))),
  lost.length > LOST_MAX && h('p', { class: 'quiet' }, `and ${format.integer(lost.length - LOST_MAX)} more`)];
}

export function view(root, app, parts, query) {
  let stopped = false;
  let minus = Math.min(1000, Math.max(1, Number.parseInt(query.get('minus'), 10) || 1));
  const top = h('div', { class: 'tiles' });
  const who = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Tenants' });
  const why = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Workloads of the tenants' });
  const less = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'What if' });
  const nodes = h('input', { type: 'number', min: '1', max: '1000', value: `${minus}`, 'aria-label': 'Nodes less',
    oninput: () => {
      const asked = Number.parseInt(nodes.value, 10);
      if (!(asked >= 1 && asked <= 1000)) return;
      minus = asked;
      app.keep({ minus: minus > 1 ? minus : '' });
      refresh();
    } });
  const full = h('div', {}, top, card('Tenants', 'cores and memory; hover a heading for what it means', who),
    h('div', { class: 'grid' }, card('Who asked, who got', 'replicas, and why', why),
      card('What if', 'as it settles', h('label', { class: 'tools' }, 'Nodes less', nodes), less)));
  const body = h('div', {});
  fill(root, h('div', { class: 'title' }, h('h1', {}, 'Capacity')), body);
  app.title('Capacity');

  async function refresh() {
    let c = null;
    let missing = '';
    const fleet = get('/v1/series?limit=1');
    try {
      c = await get(`/v1/capacity?minus=${minus}`);
    } catch (error) {
      if (error.status !== 404) throw error;
      missing = error.message;
    }
    const { pending } = await fleet;
    if (stopped) return '';
    if (!c) {
      fill(body, h('div', { class: 'nothing' }, h('h2', {}, 'No capacity is shared here'),
        h('p', { class: 'empty' }, missing.charAt(0).toUpperCase() + missing.slice(1), '.'),
        h('p', { class: 'quiet' }, 'Add a document of kind ', h('code', {}, 'Tenant'), ' or ',
          h('code', {}, 'spec.tenancy'), ' to an autoscaler. To see one: ',
          h('code', {}, 'aware run --daemon -f examples/tenants --listen 9180'), '.')));
      return 'missing';
    }
    c.pending = pending.at(-1) ?? 0;
    if (!full.isConnected) fill(body, full);
    fill(top, tiles(c));
    fill(who, tenants(c));
    fill(why, workloads(c));
    if (c.what_if) fill(less, whatIf(c.what_if, minus));
    return '';
  }
  return { refresh, destroy() { stopped = true; } };
}
