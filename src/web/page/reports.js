// reports.js - experiment reports that lie in a folder: shown beside their list, and closed in there.

import { h, fill, empty } from './dom.js';
import * as format from './format.js';
import { get, getText } from './data.js';

export function view(root, app, parts) {
  let stopped = false;
  let drawn = '';
  const chosen = parts.length ? parts.map(decodeURIComponent).join('/') : null;
  const body = h('div', {});
  fill(root, h('div', { class: 'title' }, h('h1', {}, 'Reports')), body);
  app.title('Reports');

  async function show(report, place) {
    if (report.kind === 'json') {
      const text = await getText(`/reports/${report.name}`);
      let pretty = text;
      try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* shown as it is */ }
      fill(place, h('pre', { class: 'json' }, pretty.slice(0, 500000)));
      return;
    }
    fill(place, h('p', {}, h('a', { href: `/reports/${report.name}`, target: '_blank', rel: 'noopener' },
      'Open the report in a tab of its own')), h('p', { class: 'quiet' },
    'A report is someone\'s file with scripts of its own. It opens apart from this page, and can reach nothing.'));
  }

  async function refresh() {
    const data = await get('/v1/reports');
    const text = JSON.stringify(data);
    if (stopped || text === drawn) return;
    drawn = text;
    const reports = data.reports.filter((r) => r.kind !== 'run');
    const runs = data.reports.length - reports.length;
    if (!reports.length) {
      fill(body, h('section', { class: 'card' }, h('div', { class: 'nothing' }, h('h2', {}, 'No reports yet'),
        empty(format.sentence(data.missing || 'the folder has training runs alone; they are under Training')),
        h('p', { class: 'quiet' }, h('code', {}, 'aware run --report DIR/run.html'), ', ',
          h('code', {}, 'aware simulate --report DIR/simulate.html'), ' and ',
          h('code', {}, 'aware evaluate --json'), ' write some.'))));
      return;
    }
    const place = h('div', { class: 'preview' });
    fill(body, h('section', { class: 'card' }, h('table', {}, h('thead', {}, h('tr', {}, ['Report', 'Kind', 'Size',
      'Written'].map((name) => h('th', { scope: 'col' }, name)))), h('tbody', {}, reports.map((r) => h('tr', {},
      h('th', { scope: 'row' }, r.kind === 'html' ? h('a', { href: `/reports/${r.name}`, target: '_blank',
        rel: 'noopener' }, r.name) : h('a', { href: `#/reports/${encodeURIComponent(r.name)}` }, r.name)),
      h('td', {}, r.kind), h('td', {}, format.bytes(r.bytes)),
      h('td', {}, r.modified.slice(0, 16).replace('T', ' ')))))),
    runs > 0 && h('p', { class: 'quiet' }, `${runs} files of training runs are under `,
      h('a', { href: '#/training' }, 'Training'), '.')), place);
    const found = reports.find((r) => r.name === chosen);
    if (found) show(found, place).catch((error) => fill(place, empty(error.message)));
  }
  return { refresh, destroy() { stopped = true; } };
}
