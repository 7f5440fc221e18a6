// map.js - workloads by what they are like: embeddings, projected onto two dimensions.

import { h, fill, svg, empty, card, stageBadge } from './dom.js';
import { get } from './data.js';
import { sentence, percent, number, integer } from './format.js';

const SIZE = 1000;
const MARGIN = 40;
const AGAIN_MS = 5000; // an embedding moves when an episode has ended, which is seldom

function scale(all, key) {
  let low = Infinity;
  let high = -Infinity;
  for (const one of all) {
    low = Math.min(low, one[key]);
    high = Math.max(high, one[key]);
  }
  const span = high - low || 1;
  return (v) => MARGIN + ((v - low) / span) * (SIZE - 2 * MARGIN);
}

function near(point) {
  return h('ul', { class: 'list' }, (point.nearest || []).map((one) => {
    const alike = h('span', { class: 'quiet' }, `${Math.round(100 * one.similarity)} % alike`);
    return h('li', {}, one.known
      ? h('span', { class: 'top one' }, h('span', {}, `application ${one.name} `,
        h('span', { class: 'quiet' }, '(known to the model)')), alike)
      : h('a', { href: `#/workload/${one.name}` }, h('span', { class: 'top' }, h('b', {}, one.name), alike)));
  }));
}

const guess = (value, show) => `${show(value.value)}, give or take ${show(value.deviation)}`;

function about(point) {
  const facts = [];
  if (point.episodes) {
    facts.push(`Known by ${integer(point.episodes)} ${point.episodes === 1 ? 'episode' : 'episodes'} of ` +
      `${point.by_fallback ? 'the fallback' : 'the controller that acted: the store has none of the fallback alone'}.`);
  }
  if (point.reward_drop) facts.push(`A policy of the model would lose ${guess(point.reward_drop, percent)} at first.`);
  if (point.retraining_episodes) facts.push(`Episodes to adapt: ${guess(point.retraining_episodes, number)}.`);
  return [h('h3', {}, h('a', { href: `#/workload/${point.name}` }, point.name), ' ',
    point.stage && stageBadge(point.stage)), point.out_of_distribution &&
    h('p', { class: 'wrong' }, 'Unlike anything that the encoder was trained on.'),
  facts.map((text) => h('p', { class: 'quiet' }, text)), near(point)];
}

function legend(data) {
  const counts = new Map();
  for (const { stage } of data.points) counts.set(stage, (counts.get(stage) || 0) + 1);
  const mark = (name, text) => h('span', {}, svg('svg', { viewBox: '0 0 14 14', width: 12, height: 12,
    'aria-hidden': 'true' }, svg('circle', { cx: 7, cy: 7, r: 5, class: name })), ` ${text}`);
  return h('p', { class: 'marks quiet' },
    ['initialized', 'offline', 'online', 'serving'].filter((stage) => counts.has(stage))
      .map((stage) => mark(`dot ${stage}`, `${integer(counts.get(stage))} ${stage}`)),
    data.points.some((p) => p.out_of_distribution) && mark('dot strange', 'unlike all that is known'),
    (data.known || []).length > 0 && mark('known', `${integer(data.model ? data.model.known : data.known.length)} ` +
      'applications that the model knows'));
}

function caption(data) {
  const shares = data.explained.length
    ? `, ${data.explained.map((v) => `${Math.round(100 * v)} %`).join(' and ')} of the variance` : '';
  const rest = [data.waiting > 0 && `${integer(data.waiting)} without an embedding yet`,
    data.left_out > 0 && `${integer(data.left_out)} that this model does not fit or is not asked for`].filter(Boolean);
  return h('p', { class: 'quiet' }, `${integer(data.points.length)} workloads, ${data.dimensions} dimensions on two ` +
    `(${data.projection}${shares})${data.model ? `, by the model ${data.model.name}` : ''}` +
    `${rest.length ? `; ${rest.join(', ')}` : ''}.`);
}

// `held` remembers who is chosen while the map is drawn anew.
function picture(data, held) {
  const known = data.known || [];
  const all = data.points.concat(known);
  const x = scale(all, 'x');
  const y = scale(all, 'y');
  const side = h('div', {}, h('p', { class: 'quiet' }, 'Choose a workload to see those most like it.'));
  const dots = data.points.map((point, at) => {
    const dot = svg('circle', { cx: x(point.x).toFixed(1), cy: (SIZE - y(point.y)).toFixed(1), r: 9,
      class: `dot ${point.stage || 'initialized'}${point.out_of_distribution ? ' strange' : ''}`, tabindex: 0,
      role: 'button', 'aria-label': point.name, 'data-at': at }, svg('title', {}));
    dot.firstChild.textContent = point.name;
    return dot;
  });
  function choose(dot) {
    const point = dot && data.points[Number(dot.dataset.at)];
    if (!point) return;
    for (const one of dots) one.classList.toggle('chosen', one === dot);
    held.name = point.name;
    fill(side, about(point));
  }
  const root = svg('svg', { viewBox: `0 0 ${SIZE} ${SIZE}`, class: 'map', role: 'group',
    'aria-label': 'Map of workloads', onclick: (event) => choose(event.target.closest('.dot')),
    onkeydown: (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      choose(event.target.closest('.dot'));
    } },
  known.map((one) => svg('circle', { cx: x(one.x).toFixed(1), cy: (SIZE - y(one.y)).toFixed(1), r: 4,
    class: 'known' })), dots);
  choose(dots.find((dot) => data.points[Number(dot.dataset.at)].name === held.name));
  return h('div', { class: 'grid wide-left' }, h('section', { class: 'card' }, root, legend(data), caption(data)),
    card('Most alike', null, side));
}

export function view(root, app) {
  let stopped = false;
  let drawn = '';
  let asked = -Infinity;
  const held = { name: '' };
  const body = h('div', {});
  fill(root, h('div', { class: 'title' }, h('h1', {}, 'Map of workloads')),
    h('p', { class: 'sentence' }, 'Workloads that are near each other behave alike, so what was learned of one ' +
      'helps the other.'), body);
  app.title('Map');
  async function refresh() {
    if (performance.now() - asked < AGAIN_MS) return;
    asked = performance.now();
    const data = await get('/v1/embeddings');
    const text = JSON.stringify(data);
    if (stopped || text === drawn) return;
    drawn = text;
    fill(body, data.points.length ? picture(data, held) : h('section', { class: 'card' },
      h('div', { class: 'nothing' }, svg('svg', { viewBox: '0 0 120 70', width: 160 },
        [[22, 44], [31, 30], [38, 50], [72, 22], [84, 32], [76, 40], [98, 54]].map(([cx, cy]) => svg('circle',
          { cx, cy, r: 4, class: 'ghost' }))), h('h2', {}, 'No embedding yet'),
      empty(sentence(data.missing || 'no workload has an embedding yet')),
      h('p', { class: 'quiet' }, 'An encoder reads episodes of the fallback and sums a workload up as a few ' +
        'numbers. Once one has ended, the workload appears here, with those most alike.'))));
  }
  return { refresh, destroy() { stopped = true; } };
}
