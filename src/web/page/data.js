// data.js - the daemon's API, and its event stream, which comes back by itself.

const RETRY_MS = [500, 1000, 2000, 5000, 10000];
const SILENT_MS = 15000; // the daemon says something every five seconds

let token = sessionStorage.getItem('aware-token') || '';
export const hasToken = () => token !== '';
export function setToken(value) {
  token = value;
  if (value) sessionStorage.setItem('aware-token', value);
  else sessionStorage.removeItem('aware-token');
}

function headers(extra) {
  return { ...extra, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
}

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function answer(response) {
  if (response.ok) return response;
  let text = `${response.status} ${response.statusText}`;
  try { text = (await response.json()).error.message; } catch { /* not ours to explain */ }
  throw new Refused(response.status, text);
}

export async function get(path, signal) {
  const response = await answer(await fetch(path, { headers: headers(), signal, cache: 'no-store' }));
  return response.json();
}
// `paged`: {text, next}, of an answer whose next part another question brings.
export async function getText(path, signal, paged) {
  const response = await answer(await fetch(path, { headers: headers(), signal, cache: 'no-store' }));
  const text = await response.text();
  return paged ? { text, next: response.headers.get('Aware-Next') } : text;
}
export async function order(body) {
  const response = await answer(await fetch('/v1/orders', { method: 'POST', body: JSON.stringify(body),
    headers: headers({ 'Content-Type': 'application/json' }) }));
  return response.json();
}

export const workloadPath = (name) => `/v1/workloads/${name.split('/').map(encodeURIComponent).join('/')}`;

// Calls tell(kind, data): "tick" with the status, "open", "lost" with a reason. EventSource cannot
// send a token, so the stream is read by hand; its format is lines of "field: value".
export function listen(tell) {
  let attempt = 0;
  let silent = 0;
  let abort = null;
  async function read(response) {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let buffer = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silent);
      silent = setTimeout(() => abort.abort(), SILENT_MS);
      buffer += decoder.decode(value, { stream: true });
      const events = buffer.split('\n\n');
      buffer = events.pop();
      for (const event of events) {
        const data = event.split('\n').filter((line) => line.startsWith('data: '))
          .map((line) => line.slice(6)).join('\n');
        if (!data) continue;
        attempt = 0;
        tell('tick', JSON.parse(data));
      }
    }
  }
  async function run() {
    for (;;) {
      abort = new AbortController();
      silent = setTimeout(() => abort.abort(), SILENT_MS);
      let why = 'the daemon closed the stream';
      try {
        const response = await answer(await fetch('/v1/events',
          { headers: headers(), signal: abort.signal, cache: 'no-store' }));
        tell('open');
        await read(response);
      } catch (error) {
        why = error instanceof Refused ? error.message : 'no answer from the daemon';
      }
      clearTimeout(silent);
      const pause = RETRY_MS[Math.min(attempt++, RETRY_MS.length - 1)];
      tell('lost', { why, pause });
      await new Promise((done) => { setTimeout(done, pause); });
    }
  }
  run();
}
