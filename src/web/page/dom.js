// dom.js - elements without templates. Text is always text: nothing is ever parsed as HTML.

export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'class') element.className = value;
    else if (key === 'style') for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else if (key === 'data') Object.assign(element.dataset, value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';
export function svg(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child) element.append(child);
  return element;
}

// Small drawings of one path, in the colour of the text around them.
const icons = {
  sun: 'M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM12 1v3M12 20v3M4.200 4.200l2.100 2.100M17.700 17.700l2.100 2.100M1 12h3M20 12h3M4.200 19.800l2.100-2.100M17.700 6.300l2.100-2.100',
  moon: 'M20.500 14.500A9 9 0 0 1 9.500 3.500a9 9 0 1 0 11 11z',
  auto: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  lock: 'M5 11h14v10H5zM8 11V7a4 4 0 0 1 8 0v4',
  unlock: 'M5 11h14v10H5zM8 11V7a4 4 0 0 1 7.500-2',
  check: 'M4 12.500l5.500 5.500L20 6.500',
  cross: 'M5 5l14 14M19 5L5 19',
  right: 'M9 5l7 7-7 7',
  search: 'M10.500 3a7.500 7.500 0 1 0 0 15 7.500 7.500 0 0 0 0-15zM16 16l5.500 5.500',
};
export function icon(name) {
  return svg('svg', { viewBox: '0 0 24 24', width: 16, height: 16, class: 'glyph', 'aria-hidden': 'true' },
    svg('path', { d: icons[name], fill: 'none', stroke: 'currentColor', 'stroke-width': 2,
      'stroke-linecap': 'round', 'stroke-linejoin': 'round' }));
}

export const STAGE_WORDS = { initialized: 'initialized: nothing has been decided yet',
  offline: 'offline: the fallback acts, the agent learns from it',
  online: 'online: the agent acts and goes on learning', serving: 'serving: the agent has proven itself and acts' };
export function stageBadge(stage) {
  return h('span', { class: `stage ${stage}`, title: STAGE_WORDS[stage] }, stage);
}

// A figure with its name and what it means: on hover, by keyboard and for screen readers.
export function tile(label, value, note, means, kind, extra) {
  return h('div', { class: `tile ${kind || ''}`, title: means, role: 'group', 'aria-label': label, tabindex: '0' },
    h('span', { class: 'label' }, label, h('span', { class: 'unseen' }, `: ${means}`)),
    h('strong', {}, value), h('span', { class: 'note' }, note), extra);
}

// A list of terms, two columns.
export function terms(rows) {
  return h('dl', { class: 'terms' }, rows.filter(Boolean).map(([term, value, kind]) => [
    h('dt', {}, term), h('dd', { class: kind }, value)]));
}

export function card(title, note, ...children) {
  return h('section', { class: 'card' },
    title && h('div', { class: 'head' }, h('h2', {}, title), note && h('span', { class: 'quiet' }, note)),
    children);
}

export function empty(...words) {
  return h('p', { class: 'empty' }, words);
}
