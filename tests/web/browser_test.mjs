// browser_test.mjs - the page in a real browser, against a running daemon.
//
//   node browser_test.mjs URL OUT CHROMIUM TOKEN [PLAYWRIGHT [AXE [TENANTS]]]
//
// URL: of the daemon; OUT: folder for screenshots and figures.json; TOKEN: of the daemon. Prints a line
// per check. "stop the daemon" and "start the daemon" ask the caller to do so, and to say "done".
// AXE: axe-core's script. TENANTS: URL of a daemon whose workloads share a cluster.
// Exit status 0: all hold.

import { createRequire } from 'node:module';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const [url, out, executablePath, token, playwright, axe, tenants] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(playwright || 'playwright-core');
const MANY = 10000;
const FRAME_P95_MS = 34; // two frames of 60 Hz
const CPU_MS = 14; // that a frame may take of the page's thread: it must be done within 16.7
const CPU_BUSY_MS = 60; // the same where others take processors and caches
const WAIT_MS = 60000; // the machine may be busy: nothing here has to be quick

let failed = 0;
const figures = {};
function check(holds, what) {
  console.log(`${holds ? 'ok' : 'not ok'} - ${what}`);
  failed += holds ? 0 : 1;
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function please(what) {
  console.log(what);
  await lines.next();
}

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
const complaints = [];

async function open(options, hash, base = url) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'light', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(`${hash}: ${message.text()}`);
  });
  page.on('pageerror', (error) => complaints.push(`${hash}: ${error.message}`));
  page.on('request', (request) => {
    if (![url, tenants].some((own) => own && request.url().startsWith(own))) complaints.push(`asked another host: ${request.url()}`);
  });
  await page.goto(`${base}/${hash}`);
  return page;
}

// What axe-core finds wrong for people who cannot see, hear or point; the page's own policy forbids foreign
// scripts, so it is put in from outside.
async function accessible(page, what) {
  if (!axe) return;
  const session = await page.context().newCDPSession(page);
  await session.send('Page.setBypassCSP', { enabled: true });
  await session.send('Runtime.evaluate', { expression: fs.readFileSync(axe, 'utf8') });
  const found = await page.evaluate(() => window.axe.run().then((done) => done.violations
    .map((one) => `${one.id}: ${one.nodes[0].target.join(' ')}`)));
  check(found.length === 0, `axe-core finds nothing in ${what}${found.length ? `: ${found.join(' | ')}` : ''}`);
}

const shot = (page, name, fullPage) => page.screenshot({ path: path.join(out, `${name}.png`), fullPage });

// --- each view, with what the daemon knows ---------------------------------------------------------

const status = await (await fetch(`${url}/v1/status`)).json();
const table = await (await fetch(`${url}/v1/table`)).json();
const first = table.name[0];

const views = {
  overview: ['#/', async (page) => {
    await page.waitForSelector('.tile strong');
    await page.waitForSelector('.plot canvas');
    check((await page.locator('.tile').first().locator('strong').textContent()) === String(status.workloads.total),
      'the overview counts the workloads');
    check(await page.locator('.plot canvas').count() >= 4, 'the overview draws its plots');
    await page.waitForSelector('.list li');
    check(await page.locator('.list li').count() > 0, 'the overview lists what was done');
  }],
  workloads: ['#/workloads', async (page) => {
    await page.waitForSelector('.table .item');
    check(await page.locator('.table .item:visible').count() === status.workloads.total,
      'the table has a row for each workload');
  }],
  workload: [`#/workload/${first}`, async (page) => {
    await page.waitForSelector('.plot canvas');
    check((await page.locator('h1').textContent()).includes(first.split('/')[1]), 'a workload has its page');
    check(await page.locator('.plot canvas').count() === 8, 'a workload has eight plots');
    check(await page.locator('.conditions li').count() >= 5, 'a workload shows its conditions');
    const all = page.getByRole('button', { name: 'All that is notable' });
    await all.click();
    await page.locator('.decisions summary').first().click();
    await page.waitForSelector('.decisions .account h3');
    check((await page.locator('.account').first().textContent()).includes('Wanted'),
      'a decision opens and tells what was wanted');
  }],
  training: [`#/training/${first}`, async (page) => {
    await page.waitForSelector('.plot canvas');
    check(await page.locator('.plot').count() >= 6, 'training has its plots');
    await page.waitForSelector('section.card .plot canvas, section.card .empty');
    check(await page.locator('section.card .plot canvas').count() > 0, 'a run of aware train is drawn');
  }],
  map: ['#/map', async (page) => {
    await page.waitForSelector('.map .dot');
    check(await page.locator('.map .known').count() > 100, 'the map shows workloads among those that the model knows');
    await page.locator('.map .dot').last().click(); // the topmost: workloads may lie upon each other
    await page.waitForFunction(() => document.body.textContent.includes('% alike'));
    check(true, 'the map tells whom a workload is most like');
  }],
  reports: ['#/reports', async (page) => {
    await page.waitForSelector('tbody tr');
    check((await page.locator('tbody').textContent()).includes('sample.html'), 'reports are listed');
  }],
};

for (const [name, [hash, looks]] of Object.entries(views)) {
  const page = await open({}, hash);
  await looks(page);
  await shot(page, `${name}-light`, name !== 'workloads');
  await accessible(page, `${name}, light`);
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(150);
  await shot(page, `${name}-dark`, name !== 'workloads');
  await accessible(page, `${name}, dark`);
  await page.context().close();
}

// --- capacity: with tenants, and where nothing is shared -----------------------------------------------

if (tenants) {
  const page = await open({}, '#/capacity', tenants);
  await page.waitForSelector('.view-capacity tbody tr');
  const text = await page.locator('main').textContent();
  check(text.includes('shop') && text.includes('reports') && text.includes('Borrows'), 'capacity: tenants and what they hold');
  check(text.includes('With one node less the cluster has 16 cores'), 'capacity: what if a node is gone');
  await page.locator('input[type=number]').fill('2');
  await page.waitForFunction(() => document.querySelector('main').textContent.includes('With 2 nodes less'));
  check(page.url().endsWith('#/capacity?minus=2'), 'capacity: what is asked stands in the address');
  await accessible(page, 'capacity, light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible(page, 'capacity, dark');
  await page.setViewportSize({ width: 390, height: 844 });
  check(!await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1), 'capacity fits a phone');
  await page.context().close();
}
{
  const quiet = complaints.length;
  const page = await open({}, '#/capacity');
  await page.waitForSelector('.nothing h2');
  check((await page.locator('.nothing').textContent()).includes('spec.tenancy'), 'capacity: nothing shared is said, and how to share');
  await page.context().close();
  complaints.splice(quiet); // the browser tells of the 404, which was meant
}

// --- links and time ranges ---------------------------------------------------------------------------

{
  const page = await open({}, `#/workload/${first}`);
  await page.waitForSelector('.plot canvas');
  await page.getByRole('button', { name: '1 day' }).click();
  check(page.url().endsWith('?range=1d'), 'a range stands in the address');
  await page.reload();
  await page.waitForSelector('[data-range="1d"][aria-pressed="true"]');
  await page.waitForFunction(() => /from the store: [\d,]+ older steps|nothing older|^$/.test(
    document.querySelector('.tools [role=status]').textContent));
  check(true, 'a link opens the same range');
  await page.waitForFunction(() => document.querySelector('.stage-words')?.textContent.length > 10);
  check(true, 'the stage is explained in words');
  check(await page.locator('.tile:not([title])').count() === 0, 'no tile is unexplained');
  await page.evaluate(() => { location.hash = '#/workloads?find=web&sort=cost&down=1'; });
  await page.waitForFunction(() => document.querySelectorAll('.table .item:not([style*="none"])').length === 1);
  check(await page.locator('.c-cost[aria-sort=descending]').count() === 1, 'a link opens the same table');
  const modules = await page.evaluate(async () => {
    const { byName } = await import('/table.js');
    const { aligned } = await import('/training.js');
    const { stored } = await import('/workload.js');
    const like = { step_s: 15, stages: ['offline', 'serving'], actors: ['fallback', 'agent'],
      outcomes: ['unchanged', 'applied'], at: [30], ready: [1], wanted: [1], cost_per_hour: [1], stage: [0], actor: [0],
      outcome: [0], held_by: [0], tripped: [0], missed: [0], twin_latency_us: [null] };
    const row = { at_us: 0, replicas: 2, cost: 0.01, stage: 'serving', actor: 'agent', violated: 1 };
    const past = stored([row, { ...row, at_us: 15e6, replicas: 3 }], like);
    return { names: byName(['web-10', 'web-9', 'Web-1'].map((name) => ({ name }))).map((r) => r.name).join(),
      aligned: JSON.stringify(aligned([{ x: [1, 3], columns: { a: [5, 6] } }, { x: [2], columns: {} }], 'a')),
      past: [past.at.join(), past.cost_per_hour[0].toFixed(2), past.stage.join(), past.outcome.join(),
        past.missed.join(), past.twin_latency_us[0]].join(';') };
  });
  check(modules.names === 'Web-1,web-9,web-10', `names are sorted as people count: ${modules.names}`);
  check(modules.aligned === '{"x":[1,2,3],"y":[[5,null,6],[null,null,null]]}', `runs are aligned: ${modules.aligned}`);
  check(modules.past === '0,15;2.40;1,1;0,1;1,1;', `stored steps become a series: ${modules.past}`);
  await page.context().close();
}

// --- a phone ---------------------------------------------------------------------------------------

{
  const page = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true,
    hasTouch: true, colorScheme: 'dark' }, '#/');
  for (const hash of ['#/', '#/workloads', `#/workload/${first}`, `#/training/${first}`]) {
    await page.evaluate((to) => { location.hash = to; }, hash);
    await page.waitForSelector(hash === '#/workloads' ? '.table .item' : '.plot canvas');
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
    check(!wide, `${hash} fits a phone without scrolling sideways`);
    await shot(page, `phone-${hash.split('/')[1] || 'overview'}`, true);
  }
  await page.context().close();
}

// --- live ------------------------------------------------------------------------------------------

{
  const page = await open({}, '#/');
  await page.waitForSelector('.live.on');
  const clock = () => page.locator('#live b').textContent();
  const before = await clock();
  await page.waitForFunction((old) => document.querySelector('#live b').textContent !== old, before);
  check(true, 'live: the clock moves by itself');
  const seen = await page.locator('.tile').nth(3).textContent();
  await page.waitForFunction((old) => document.querySelectorAll('.tile')[3].textContent !== old, seen);
  check(true, 'live: the figures move by themselves');
  // the daemon is gone, and comes back
  const quiet = complaints.length;
  await please('stop the daemon');
  await page.waitForSelector('.live.off');
  check(true, 'live: a lost connection is said');
  await please('start the daemon');
  await page.waitForSelector('.live.on');
  check(true, 'live: it reconnects by itself');
  complaints.splice(quiet); // the browser's own lines about nobody listening there
  await page.context().close();
}

// --- by keyboard -----------------------------------------------------------------------------------

{
  const page = await open({}, '#/workloads');
  await page.waitForSelector('.table .item');
  await page.keyboard.press('/');
  check(await page.evaluate(() => document.activeElement.type === 'search'), 'keyboard: / goes to the search');
  await page.keyboard.type(first.split('/')[1]);
  await page.waitForFunction(() => document.querySelectorAll('.table .item:not([style*="none"])').length === 1);
  await page.locator('.table').focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction((name) => location.hash.includes(name), first);
  check(true, 'keyboard: a workload is found and opened without a mouse');
  // the view that comes may still be drawn when the first Tab is pressed
  let reached = false;
  for (let tries = 0; tries < 3 && !reached; tries++) {
    await page.keyboard.press('Tab');
    reached = await page.evaluate(() => document.activeElement !== document.body);
  }
  check(reached, 'keyboard: Tab reaches something');
  await page.context().close();
}

// --- orders, with the token alone ------------------------------------------------------------------

{
  const page = await open({}, `#/workload/${first}`);
  await page.waitForSelector('.plot canvas');
  check(await page.locator('.orders').count() === 0, 'orders: without the token there are no buttons');
  const locked = complaints.length;
  await page.locator('#unlock').click();
  await page.locator('input[name=token]').fill('this-is-not-the-token');
  await page.locator('dialog button[type=submit]').click();
  await page.waitForFunction(() => document.querySelector('dialog .wrong').textContent !== '');
  check(true, 'orders: a wrong token is refused');
  await page.locator('input[name=token]').fill(token);
  await page.locator('dialog button[type=submit]').click();
  await page.waitForSelector('.orders button');
  await page.getByRole('button', { name: 'Freeze' }).click();
  await page.locator('input[name=reason]').fill('a browser test');
  await page.locator('dialog button[type=submit]').click();
  await page.waitForSelector('.pill.warn');
  check(true, 'orders: a freeze is taken and shown');
  const freezes = await (await fetch(`${url}/v1/freezes`)).json();
  check(freezes.freezes.some((one) => one.reason === 'a browser test' && one.by === 'token'),
    'orders: it is written down with its reason');
  let asked = 0;
  page.on('response', (response) => { asked += response.status() === 404; });
  await page.evaluate(() => { location.hash = '#/workload/default/nobody'; });
  await page.waitForSelector('.banner[role=alert]');
  const once = asked;
  await page.waitForTimeout(3500);
  check(once > 0 && asked === once, `orders: an unknown workload is not asked for again and again (${asked})`);
  complaints.splice(locked); // the browser tells of 401 and 404, which were meant
  await page.context().close();
}

// --- ten thousand ----------------------------------------------------------------------------------

{
  const many = { ...table, total: MANY };
  for (const [key, column] of Object.entries(table)) {
    if (!Array.isArray(column) || ['stages', 'actors', 'outcomes', 'rails', 'modes'].includes(key)) continue;
    many[key] = Array.from({ length: MANY }, (_, i) => (key === 'name'
      ? `team-${String(i % 40).padStart(2, '0')}/service-${String(i).padStart(5, '0')}`
      : key === 'stage' ? i % 4 : /(_per_s|_us|_per_hour|_used)$/.test(key)
        ? column[i % column.length] * (0.4 + (i % 17) / 17) : column[i % column.length]));
  }
  const page = await open({}, '#/map');
  await page.route('**/v1/table', (route) => route.fulfill({ json: many }));
  await page.evaluate(() => { location.hash = '#/workloads'; });
  await page.waitForFunction((n) => document.querySelector('.table')?.getAttribute('aria-rowcount') === String(n),
    MANY);
  const rows = await page.locator('.table .item').count();
  check(rows < 100, `ten thousand: only ${rows} rows exist`);
  // Time on the clock says nothing where others take the processors, time of the page's thread does.
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const cpuMs = async () => 1000 * (await session.send('Performance.getMetrics')).metrics
    .find((one) => one.name === 'TaskDuration').value;
  const before = await cpuMs();
  const frames = await page.evaluate(async () => {
    const table = document.querySelector('.table');
    const times = [];
    let last = performance.now();
    for (let i = 0; i < 240; i++) {
      table.scrollTop += 120; // 7200 pixels a second at 60 Hz: as fast as names can be told apart
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    return times.sort((a, b) => a - b);
  });
  const cpu = (await cpuMs() - before) / 240;
  const busy = os.loadavg()[0] > os.cpus().length;
  Object.assign(figures, { frame_cpu_ms: cpu, frame_ms_median: frames[120], frame_ms_p95: frames[228],
    frame_ms_max: frames[239], load: os.loadavg()[0], processors: os.cpus().length });
  check(busy ? cpu < CPU_BUSY_MS : cpu < CPU_MS && frames[228] < FRAME_P95_MS, `ten thousand: scrolling takes ${cpu.toFixed(1)} ms of ` +
    `the page's thread a frame; frames of ${frames[120].toFixed(1)} ms, 95 % at most ${frames[228].toFixed(1)} ms` +
    `${busy ? ' on a busy machine' : ''}`);
  await page.evaluate(() => { document.querySelector('.table').scrollTop = 200000; }); // and a leap
  await page.waitForTimeout(200);
  const shown = await page.evaluate(() => [...document.querySelectorAll('.table .item')]
    .filter((row) => { const box = row.getBoundingClientRect(); return box.height && box.top > 200 && box.top < 700; })
    .every((row) => row.textContent.includes('service-')));
  check(shown, 'ten thousand: rows are there after a leap');
  const took = await page.evaluate(async () => {
    const begin = performance.now();
    document.querySelector('.c-cost button').click();
    const sorted = performance.now();
    const search = document.querySelector('input[type=search]');
    search.value = 'team-07 service-01';
    search.dispatchEvent(new Event('input'));
    return [sorted - begin, performance.now() - sorted];
  });
  [figures.sort_ms, figures.filter_ms] = took;
  check(took[0] < (busy ? 2000 : 200) && took[1] < (busy ? 2000 : 200), `ten thousand: sorted in ${took[0].toFixed(0)} ms, filtered in ` +
    `${took[1].toFixed(0)} ms`);
  check((await page.locator('.count').textContent()).includes('of 10,000'), 'ten thousand: the filter counts');
  await shot(page, 'ten-thousand-filtered', false);
  await page.locator('input[type=search]').fill('');
  await shot(page, 'ten-thousand', false);
  await page.context().close();
}

// --- a map of many workloads, in the shape that a daemon gives it -----------------------------------

{
  const points = Array.from({ length: 60 }, (_, i) => ({ name: `shop/app-${i}`, x: Math.cos(i) * (1 + (i % 3)),
    y: Math.sin(i * 1.7) * (1 + (i % 5)), stage: ['offline', 'online', 'serving'][i % 3],
    episodes: 3, by_fallback: true, out_of_distribution: i === 7, quantile: 0.5, retraining_episodes: null,
    reward_drop: { value: 0.04, deviation: 0.02 }, nearest: [{ name: `shop/app-${(i + 1) % 60}`, similarity: 0.93,
      known: false }, { name: '1:532', similarity: 0.9, known: true }] }));
  const known = Array.from({ length: 200 }, (_, i) => ({ name: `1:${i}`, x: Math.sin(i) * 4, y: Math.cos(i * 2.3) * 5 }));
  const page = await open({}, '#/reports');
  await page.route('**/v1/embeddings', (route) => route.fulfill({ json: { dimensions: 0, model: null, projection: null,
    projection_of: null, explained: [], points: [], known: [], waiting: 0, left_out: 0,
    missing: 'learning.model is none' } }));
  await page.evaluate(() => { location.hash = '#/map'; });
  await page.waitForSelector('.nothing h2');
  check((await page.locator('.nothing').textContent()).includes('model is none'), 'an empty map says what is missing');
  await page.unroute('**/v1/embeddings');
  await page.evaluate(() => { location.hash = '#/reports'; });
  await page.waitForSelector('tbody tr');
  await page.route('**/v1/embeddings', (route) => route.fulfill({ json: { dimensions: 64, projection: 'principal components',
    projection_of: 'known', explained: [0.61, 0.22], points, known, waiting: 2, left_out: 0, missing: null,
    model: { name: 'default', checksum: '00000000000000ff', known: 200 } } }));
  await page.evaluate(() => { location.hash = '#/map'; });
  await page.waitForSelector('.map .dot');
  check(await page.locator('.map .dot').count() === 60, 'the map shows every embedding');
  check(await page.locator('.map .known').count() === 200, 'the map shows what the model knows behind them');
  await page.locator('.map .dot').nth(7).focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.body.textContent.includes('93 % alike'));
  check(true, 'the map tells who is alike, by keyboard too');
  const told = await page.locator('body').textContent();
  check(told.includes('application 1:532') && told.includes('4.0 %, give or take 2.0 %') &&
    told.includes('2 without an embedding yet'), 'the map tells what is known, predicted and missing');
  await shot(page, 'map-full', false);
  await page.context().close();
}

check(complaints.length === 0, `the console is silent${complaints.length ? `: ${complaints.slice(0, 5).join(' | ')}` : ''}`);
fs.writeFileSync(path.join(out, 'figures.json'), `${JSON.stringify(figures, null, 1)}\n`);
await browser.close();
process.exit(failed ? 1 : 0); // stdin would keep it
