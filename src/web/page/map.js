// map.js - workloads by what they are like: embeddings, projected onto two dimensions.

import { h, fill, svg, empty, card } from './dom.js';
import { get } from './data.js';
import { sentence } from './format.js';

const SIZE = 1000;
const MARGIN = 40;

function scale(points, key) {
  const values = points.map((p) => p[key]);
  const low = Math.min(...values);
  const span = Math.max(...values) - low || 1;
  return (v) => MARGIN + ((v - low) / span) * (SIZE - 2 * MARGIN);
}

function near(point) {
  return h('ul', { class: 'list' }, (point.nearest || []).map((one) => h('li', {},
    h('a', { href: `#/workload/${one.name}` }, h('span', { class: 'top' }, h('b', {}, one.name),
      h('span', { class: 'quiet' }, `${Math.round(100 * one.similarity)} % alike`))))));
}

function picture(data, chosen) {
  const x = scale(data.points, 'x');
  const y = scale(data.points, 'y');
  const side = h('div', {}, h('p', { class: 'quiet' }, 'Choose a workload to see those most like it.'));
  const dots = data.points.map((point) => {
    const choose = () => {
      for (const dot of dots) dot.classList.toggle('chosen', dot === mine);
      fill(side, h('h3', {}, h('a', { href: `#/workload/${point.name}` }, point.name)), point.out_of_distribution &&
        h('p', { class: 'wrong' }, 'Unlike anything that the encoder was trained on.'), near(point));
    };
    const mine = svg('circle', { cx: x(point.x), cy: SIZE - y(point.y), r: 9,
      class: `dot ${point.stage || 'initialized'}${point.out_of_distribution ? ' strange' : ''}`, tabindex: 0,
      role: 'button', 'aria-label': point.name, onclick: choose,
      onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') choose(); } });
    mine.append(svg('title', {}));
    mine.firstChild.textContent = point.name;
    return mine;
  });
  chosen.push(...dots);
  return h('div', { class: 'grid wide-left' }, h('section', { class: 'card' },
    svg('svg', { viewBox: `0 0 ${SIZE} ${SIZE}`, class: 'map', role: 'group', 'aria-label': 'Map of workloads' },
      dots), h('p', { class: 'quiet' }, `${data.points.length} workloads, ${data.dimensions} dimensions on two ` +
      `(${data.projection}${data.explained.length ? `, ${data.explained.map((v) => `${Math.round(100 * v)} %`)
        .join(' and ')} of the variance` : ''})`)), card('Most alike', null, side));
}

export function view(root, app) {
  let stopped = false;
  let drawn = '';
  const body = h('div', {});
  fill(root, h('div', { class: 'title' }, h('h1', {}, 'Map of workloads')),
    h('p', { class: 'sentence' }, 'Workloads that are near each other behave alike, so what was learned of one ' +
      'helps the other.'), body);
  app.title('Map');
  async function refresh() {
    const data = await get('/v1/embeddings');
    const text = JSON.stringify(data);
    if (stopped || text === drawn) return;
    drawn = text;
    fill(body, data.points.length ? picture(data, []) : h('section', { class: 'card' },
      h('div', { class: 'nothing' }, svg('svg', { viewBox: '0 0 120 70', width: 160 },
        [[22, 44], [31, 30], [38, 50], [72, 22], [84, 32], [76, 40], [98, 54]].map(([cx, cy]) => svg('circle',
          { cx, cy, r: 4, class: 'ghost' }))), h('h2', {}, 'No embedding yet'),
      empty(sentence(data.missing || 'no workload has an embedding yet')),
      h('p', { class: 'quiet' }, 'An encoder reads the best episodes of a workload and sums them up as a few ' +
        'numbers. Once a daemon has one, its workloads appear here, with those most alike.'))));
  }
  return { refresh, destroy() { stopped = true; } };
}
