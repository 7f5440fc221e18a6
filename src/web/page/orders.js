// orders.js - what a person may do, with the token alone, and never without a reason that is kept.

import { h, fill, icon } from './dom.js';
import { order, setToken, hasToken } from './data.js';

const dialog = () => document.getElementById('dialog');

function ask(title, words, fields, action, run) {
  const box = dialog();
  const wrong = h('p', { class: 'wrong', role: 'alert' });
  const form = h('form', { method: 'dialog', onsubmit: async (event) => {
    event.preventDefault();
    wrong.textContent = '';
    try {
      await run(Object.fromEntries(new FormData(form)));
      box.close();
    } catch (error) { wrong.textContent = error.message; }
  } }, h('h2', {}, title), words && h('p', {}, words), fields, wrong, h('div', { class: 'buttons' },
    h('button', { type: 'button', onclick: () => box.close() }, 'Cancel'),
    h('button', { type: 'submit', class: 'primary' }, action)));
  fill(box, form);
  box.showModal();
}

const field = (name, label, props) => h('label', { class: 'field' }, h('span', {}, label),
  h('input', { name, autocomplete: 'off', ...props }));

export function unlock(done) {
  if (hasToken()) {
    ask('Stop giving orders?', 'The token is forgotten in this tab.', [], 'Forget the token', async () => {
      setToken('');
      done();
    });
    return;
  }
  ask('Give orders', 'The token is what is in the file that the daemon was started with (--token-file). ' +
    'It stays in this tab.', [field('token', 'Token', { type: 'password', required: true })], 'Use it',
  async ({ token }) => {
    setToken(token.trim());
    try {
      // an order that cannot be meant: refused for its kind, or for the token before that
      await order({ kind: 'unfreeze', order: 1e15 });
    } catch (error) {
      if (error.status === 401 || error.status === 403) { setToken(''); throw error; }
    }
    done();
  });
}

const reason = () => field('reason', 'Reason, kept in the audit log', { required: true, maxlength: 200 });

export function buttons(workload, told) {
  if (!hasToken()) return null;
  const name = workload.name;
  const button = (text, run, kind) => h('button', { type: 'button', class: kind || '', onclick: run }, text);
  const give = (body) => async (form) => {
    await order({ ...body, ...(form.reason ? { reason: form.reason } : {}),
      ...(form.for ? { for: form.for } : {}) });
    told();
  };
  return h('div', { class: 'orders' },
    workload.freeze === 'none'
      ? button('Freeze', () => ask(`Freeze ${name}`, 'Nothing about it is changed until then.',
        [field('for', 'For', { value: '1h', required: true }), reason()], 'Freeze',
        give({ kind: 'freeze', scope: 'workload', name })))
      : button('Unfreeze', () => ask(`Unfreeze ${name}`, null, [], 'Unfreeze',
        give({ kind: 'unfreeze', scope: 'workload', name }))),
    workload.last_change && button('Undo last change', () => ask(`Undo decision ${workload.last_change}`,
      'Back to what it was before, and frozen for half an hour.', [reason()], 'Undo',
      give({ kind: 'undo', decision: workload.last_change }))),
    workload.proposal && button('Approve', () => ask(`Approve proposal ${workload.proposal}`, null, [reason()],
      'Approve', give({ kind: 'approve', decision: workload.proposal })), 'primary'),
    workload.proposal && button('Reject', () => ask(`Reject proposal ${workload.proposal}`, null, [reason()],
      'Reject', give({ kind: 'reject', decision: workload.proposal }))),
    workload.emergency
      ? button('Calm', () => ask(`End the emergency of ${name}`, null, [reason()], 'Calm',
        give({ kind: 'calm', name })))
      : button('Emergency', () => ask(`Emergency for ${name}`, 'Half as many replicas again, at once.',
        [field('for', 'For', { value: '1h', required: true }), reason()], 'Scale up now',
        give({ kind: 'emergency', name })), 'danger'));
}

export function paintLock(button) {
  fill(button, icon(hasToken() ? 'unlock' : 'lock'));
  button.classList.toggle('on', hasToken());
}

