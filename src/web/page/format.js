// format.js - numbers and times as people read them.

const DASH = '\u2013';
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1).replace(/\.0$/, '');
  if (size >= 1) return value.toFixed(2).replace(/\.?0+$/, '');
  return Number(value.toPrecision(2)).toString();
}

export function number(value) {
  if (!known(value)) return DASH;
  if (Math.abs(value) >= 1e6) return `${digits(value / 1e6)}M`;
  if (Math.abs(value) >= 1e4) return `${digits(value / 1e3)}k`;
  return digits(value);
}
export const integer = (value) => (known(value) ? Math.round(value).toLocaleString('en-US') : DASH);
export const percent = (value, places) => (known(value)
  ? `${(100 * value).toFixed(places ?? (Math.abs(value) < 0.1 && value !== 0 ? 1 : 0))} %` : DASH);
export const rate = (value) => (known(value) ? `${number(value)}/s` : DASH);
export const cores = (milli) => (!known(milli) ? DASH
  : milli >= 1000 ? `${digits(milli / 1000)} ${milli === 1000 ? 'core' : 'cores'}` : `${Math.round(milli)}m`);
export function bytes(value) {
  if (!known(value)) return DASH;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (Math.abs(value) >= 1024 && at + 1 < units.length) { value /= 1024; at++; }
  return `${digits(value)} ${units[at]}`;
}
export function latency(us) {
  if (!known(us)) return DASH;
  if (us >= 1e6) return `${digits(us / 1e6)} s`;
  if (us >= 1e3) return `${digits(us / 1e3)} ms`;
  return `${digits(us)} \u00b5s`;
}
// "174 / 235 ms": both in the unit of the second.
export function latencyOf(us, slo) {
  if (!known(slo)) return latency(us);
  const [size, unit] = slo >= 1e6 ? [1e6, 's'] : slo >= 1e3 ? [1e3, 'ms'] : [1, '\u00b5s'];
  return `${known(us) ? number(us / size) : DASH} / ${number(slo / size)} ${unit}`;
}
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
export function money(value, suffix) {
  if (!known(value)) return DASH;
  const size = Math.abs(value);
  const text = size >= 1000 ? integer(value) : size >= 1 ? value.toFixed(2) : size >= 0.01 || size === 0
    ? value.toFixed(3) : value.toPrecision(2);
  return `$${text}${suffix || ''}`;
}
// For axes, where the unit is on every line.
export const price = (value) => (known(value) ? `$${digits(value)}` : DASH);
export function duration(seconds) {
  if (!known(seconds)) return DASH;
  const s = Math.max(0, Math.round(seconds));
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${digits(s / 3600)} h`;
  return `${digits(s / 86400)} d`;
}
export const signed = (value, places) => (known(value)
  ? `${value > 0 ? '+' : value < 0 ? '\u2212' : ''}${Math.abs(100 * value).toFixed(places ?? 1)} %` : DASH);

// Simulated time begins in 1970 and is shown as time since then: "1d 03:04".
let virtual = false;
export function setVirtual(value) { virtual = value; }
const two = (value) => String(Math.floor(value)).padStart(2, '0');
export function clock(seconds, exact) {
  if (!known(seconds)) return DASH;
  if (virtual) {
    const days = Math.floor(seconds / 86400);
    const rest = seconds - 86400 * days;
    return `${days ? `${days}d ` : ''}${two(rest / 3600)}:${two((rest % 3600) / 60)}` +
      (exact ? `:${two(rest % 60)}` : '');
  }
  const date = new Date(1000 * seconds);
  const day = new Date().toDateString() === date.toDateString() ? ''
    : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `;
  return `${exact ? day : ''}${two(date.getHours())}:${two(date.getMinutes())}` +
    (exact ? `:${two(date.getSeconds())}` : '');
}
export const when = (text) => (text ? clock(Date.parse(text) / 1000, true) : DASH);

// An amount by its name in the API: memory_bytes, clock_mhz; of what the cluster has, whatever that is.
const USUAL = ['replicas', 'cpu_millicores', 'memory_bytes'];
const amount = (member, value) => (member === 'cpu_millicores' ? cores(value)
  : member.includes('bytes') ? bytes(value) : value);
const nameOf = (member) => member.split('_')[0];
// "disk 64 MiB" for each resource that not every cluster has.
export const others = (amounts, members = Object.keys(amounts)) => members
  .filter((member) => !USUAL.includes(member) && amounts[member])
  .map((member) => `${nameOf(member)} ${amount(member, amounts[member])}`);

// "replicas 2 -> 3, cpu 500m -> 1.5 cores" as parts that can be marked up.
export function changes(from, to, which) {
  if (!from || !to) return [];
  return Object.keys(to).filter((member) => (which ? which.includes(nameOf(member)) : USUAL.includes(member)))
    .map((member) => ({ what: nameOf(member), from: String(amount(member, from[member])),
      to: String(amount(member, to[member])), grows: to[member] > from[member] }));
}
