// main.js - finds the view of an address, keeps it fresh, and says how the connection stands.

import { h, fill, icon, empty } from './dom.js';
import * as format from './format.js';
import { listen } from './data.js';
import { repaint } from './plot.js';
import { unlock, paintLock } from './orders.js';
import { view as overview } from './overview.js';
import { view as workloads } from './table.js';
import { view as workload } from './workload.js';
import { view as training } from './training.js';
import { view as map } from './map.js';
import { view as reports } from './reports.js';
import { view as capacity } from './capacity.js';

const PERIOD_MS = 1000; // between two looks, at least
const MISSING_MS = 30000;
const VIEWS = { '': ['overview', overview], workloads: ['workloads', workloads],
  workload: ['workloads', workload], training: ['training', training], map: ['map', map],
  reports: ['reports', reports], capacity: ['capacity', capacity] };

const main = document.getElementById('main');
let current = null;
let busy = false;
let again = false;
let begun = 0;
let took = 0;
let missing = false; // what the view is of is not there

const app = {
  title(text) { document.title = `${text} \u00b7 aware`; },
  // What is chosen in a view stands in its address, so that a link opens the same: no new view.
  keep(query) {
    const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
    history.replaceState(null, '', `${location.hash.split('?')[0] || '#/'}${text ? `?${text}` : ''}`);
  },
};

// A view that is slow to make is asked less often: it may take a tenth of the time. What is not there
// may come: it is asked for every half minute.
async function refresh(force) {
  if (!current) return;
  if (busy) { again = again || force; return; }
  if (!force && performance.now() - begun <
    Math.max(missing ? MISSING_MS : PERIOD_MS, 10 * took)) return;
  if (!force && document.hidden) return;
  busy = true;
  begun = performance.now();
  const asked = current;
  try {
    missing = await asked.refresh() === 'missing';
    if (asked === current) trouble('');
  } catch (error) {
    missing = error.status === 404;
    if (asked === current) trouble(error.status ? error.message : 'The daemon does not answer.');
  }
  took = performance.now() - begun;
  busy = false;
  if (again) { again = false; refresh(true); }
}

let banner = null;
function trouble(text) {
  if (banner) { banner.remove(); banner = null; }
  if (text) main.prepend(banner = h('p', { class: 'banner', role: 'alert' }, text));
}

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter((part) => part !== '')
    .map(decodeURIComponent);
  const [name, view] = VIEWS[parts[0] || ''] || [null, null];
  if (current) current.destroy();
  current = null;
  window.scrollTo(0, 0);
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.view === name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  main.className = `view-${parts[0] || 'overview'}`;
  if (!view) { fill(main, empty('There is no such page.')); return; }
  fill(main);
  const root = h('div', {});
  main.append(root);
  current = view(root, app, parts.slice(1), new URLSearchParams(query || ''));
  took = 0;
  missing = false;
  refresh(true);
}

// --- how it stands ---------------------------------------------------------------------------------

const live = document.getElementById('live');
const holds = document.getElementById('holds');
function say(kind, text, title) {
  live.className = `live ${kind}`;
  live.lastChild.textContent = text;
  live.title = title || '';
}

function onStatus(status) {
  format.setVirtual(status.virtual_time);
  const now = format.clock(Date.parse(status.now) / 1000, !status.virtual_time);
  const speed = status.virtual_time && status.speed !== 1
    ? ` \u00b7 ${status.speed === null ? 'as fast as it goes' : `${status.speed}\u00d7`}` : '';
  const late = status.tick_age_s !== null && status.tick_age_s > 30 && status.tick_age_s > 3 * status.step_s;
  say(status.ok && !late ? 'on' : 'warn', `${status.cluster} ${now}${speed}`,
    `${status.virtual_time ? 'simulated time' : 'the loop\u2019s time'}; last tick ` +
    `${format.duration(status.tick_age_s)} ago; version ${status.version}`);
  const ill = status.health.filter((one) => !one.ok).map((one) => `${one.name}: ${one.message}`);
  const words = [...ill, ...status.holds];
  if (holds.dataset.words !== words.join('\n')) {
    holds.dataset.words = words.join('\n');
    fill(holds, words.map((text) => h('p', { class: 'banner' }, text)));
  }
}

listen((kind, data) => {
  if (kind === 'tick') { onStatus(data); refresh(false); }
  if (kind === 'open') refresh(true);
  if (kind === 'lost') say('off', 'reconnecting', data.why);
});

// --- light and dark --------------------------------------------------------------------------------

const theme = document.getElementById('theme');
const ORDER = ['auto', 'light', 'dark'];
let chosen = localStorage.getItem('aware-theme') || 'auto';
function paintTheme() {
  if (chosen === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  fill(theme, icon({ auto: 'auto', light: 'sun', dark: 'moon' }[chosen]));
  repaint();
}
theme.addEventListener('click', () => {
  chosen = ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length];
  localStorage.setItem('aware-theme', chosen);
  paintTheme();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
paintTheme();

const lock = document.getElementById('unlock');
paintLock(lock);
lock.addEventListener('click', () => unlock(() => { paintLock(lock); refresh(true); }));

window.addEventListener('hashchange', route);
document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(true); });
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.matches('input, select, textarea')) return;
  const search = document.querySelector('input[type=search]');
  event.preventDefault();
  if (search) search.focus(); else location.hash = '#/workloads';
});
route();
