// What the views share: markup, addresses, loading, dialogs.
import { here } from './api.js';
import { html, useEffect, useState } from './vendor/htm-preact.js';

export * from './vendor/htm-preact.js';

/** The address of a view of the account: `#/tables/ACCOUNT/NAME?filter=..`. */
export const href = (view, name = '', search = {}) => `#/${[view, here.account, name].map(encodeURIComponent).join('/')}?${new URLSearchParams(search)}`;
export const entityHref = (table, [pk, rk]) => href('tables', table, { pk, rk });
export const go = (address) => { location.hash = address; };

/** Runs actions; the last error is shown. With a question, an action runs after it is confirmed. */
export function useRun(after) {
  const [error, setError] = useState();
  const run = async (action, question) => {
    setError();
    if (question && !(await ask({ text: question, action: 'Yes', danger: true }))) return;
    try {
      await action();
      after?.();
    } catch (failed) {
      setError(failed);
    }
  };
  return [run, error];
}

/** Loads a value when `inputs` change and after actions. An older response never replaces a newer one. */
export function useLoad(load, inputs) {
  const [state, setState] = useState({});
  const [round, setRound] = useState(0);
  const reload = () => setRound((before) => before + 1);
  const [run, failed] = useRun(reload);
  const key = JSON.stringify([inputs, round]);
  useEffect(() => {
    let isCurrent = true;
    const set = (next) => isCurrent && setState({ key, ...next });
    load().then((value) => set({ value }), (error) => set({ error }));
    return () => { isCurrent = false; };
  }, [key]);
  useEffect(() => listen('reload', reload), []);
  return { ...state, loading: state.key !== key, error: failed ?? state.error, reload, run };
}

/** Listens to an event of the window until the function that it returns is called. */
export function listen(name, react) {
  addEventListener(name, react);
  return () => removeEventListener(name, react);
}

export const Problem = ({ error }) => error && html`<p class="problem" role="alert"><b>${error.code}</b> ${error.message}</p>`;
export const tag = (text, kind = text) => html`<b class=${`tag ${kind}`}>${text}</b>`;
export const button = (text, onClick, more) => html`<button type="button" onClick=${onClick} ...${more}>${text}</button>`;
export const field = (label, name, more) => html`<label>${label} <input name=${name} spellcheck=${false} ...${more} /></label>`;
export const tick = (label, name, checked) => field(label, name, { type: 'checkbox', checked });
export const choice = (label, name, options, value, onChange) => html`<label>${label} <select name=${name} value=${value} onChange=${onChange}>
  ${options.map((one) => html`<option value=${one} selected=${one === value}>${one || 'any'}</option>`)}</select></label>`;

/** The title of a view, below what it is part of, with its actions and its error. */
export const Head = ({ title, up, error, children }) => html`<header class="line"><h1 tabindex="-1">${up && html`<a href=${href(...up)}>${up.at(-1)}</a> / `}${title}</h1>${children}</header><${Problem} error=${error} />`;
/** What a keyboard can scroll. */
export const Scroll = ({ label, children, ...more }) => html`<div class="scroll" role="region" tabindex="0" aria-label=${label} ...${more}>${children}</div>`;
export const headers = (names) => html`<thead><tr>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>`;

/** A table of records; each cell is what `columns` makes of the record. */
export const List = ({ label, columns, records }) => records?.length
  ? html`<${Scroll} label=${label}><table>${headers(Object.keys(columns))}
      <tbody>${records.map((one) => html`<tr>${Object.values(columns).map((cell) => html`<td>${cell(one)}</td>`)}</tr>`)}</tbody></table><//>`
  : records && html`<p class="quiet">No ${label}.</p>`;

const VALUES = { number: 'valueAsNumber', checkbox: 'checked' };
/** Calls `submit` with the fields that are filled: texts, numbers and truth values. */
export const Form = ({ submit, children }) => html`<form class="line" onSubmit=${(event) => {
  event.preventDefault();
  const filled = [...event.target.elements].filter(({ name, value }) => name && value);
  submit(Object.fromEntries(filled.map((one) => [one.name, one[VALUES[one.type] ?? 'value']])), event.target);
}}>${children}</form>`;

let showDialog;
/** Asks in a dialog; resolves with the text of its field or true, or undefined if it is dismissed. */
export const ask = (question) => new Promise((answer) => showDialog({ ...question, answer }));

/** The one dialog of the page. */
export function Dialog() {
  const [asked, show] = useState();
  showDialog = show;
  if (!asked) return null;
  const { text, label, action, danger, content, answer } = asked;
  const closed = ({ target }) => {
    const given = label ? new FormData(target.firstChild).get('value') : true;
    show();
    answer(target.returnValue ? given : undefined);
  };
  return html`<dialog aria-label=${text} ref=${(dialog) => dialog?.open === false && dialog.showModal()} onClose=${closed}><form method="dialog">
    <p>${text}</p>${content}${label && field(label, 'value', { type: 'password', autocomplete: 'off' })}
    <div class="line">${action && html`<button value="yes" class=${danger ? 'danger' : 'main'}>${action}</button>`}<button autofocus=${!label}>${action ? 'Cancel' : 'Close'}</button></div>
  </form></dialog>`;
}

export const count = (number) => Number(number).toLocaleString('en');
/** A time in UTC, to the millisecond. */
export const time = (iso) => iso?.replace('T', ' ').replace(/(\.\d{3})\d*/, '$1').replace('Z', '');
