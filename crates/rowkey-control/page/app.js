// The page of rowkey-server: its frame, the view that the address names, and the keys that work everywhere.
import { control, here } from './api.js';
import { Blobs } from './blobs.js';
import { Controls } from './controls.js';
import { Journal } from './journal.js';
import { Queues } from './queues.js';
import { Tables } from './tables.js';
import { Dialog, Problem, ask, button, choice, go, href, html, listen, render, useEffect, useLoad, useState } from './ui.js';

const VIEWS = { __proto__: null, tables: Tables, queues: Queues, blobs: Blobs, journal: Journal, controls: Controls };
const NAMES = Object.keys(VIEWS);
const KEYS = { '1-5': NAMES.join(', '), '/': 'filter', 'n p': 'next, previous page', r: 'reload', '?': 'this list', Esc: 'close' };

const help = () => ask({ text: 'Keys', content: html`<dl>${Object.entries(KEYS).map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>` });

/** What the address names; the tables if it names no view. */
function readAddress() {
  const [path, search] = location.hash.slice(2).split('?');
  try {
    const [view, account, name] = path.split('/').filter(Boolean).map(decodeURIComponent);
    if (VIEWS[view]) return { view, account, name, search: Object.fromEntries(new URLSearchParams(search)) };
  } catch {
    // A percent sign that encodes nothing.
  }
  return { view: 'tables', search: {} };
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select, dialog')) return;
  const view = NAMES[event.key - 1];
  const find = (selector) => document.querySelector(selector);
  const action = view ? () => go(href(view)) : {
    '/': () => find('main input')?.focus(),
    '?': help,
    n: () => find('#next')?.click(),
    p: () => find('#previous')?.click(),
    r: () => dispatchEvent(new Event('reload')),
  }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

const focusTitle = (event) => {
  event?.preventDefault();
  document.querySelector('h1')?.focus();
};

let isShown;

function App() {
  const [address, setAddress] = useState(readAddress);
  const { value: server, error } = useLoad(() => control('GET', 'server'), []);
  const accounts = server?.accounts.map((one) => one.name) ?? [];
  const { view, name, search, account = accounts[0] } = address;
  here.account = account ?? '';
  useEffect(() => listen('hashchange', () => setAddress(readAddress())), []);
  useEffect(() => listen('keydown', press), []);
  // The focus follows the view, so that the keyboard and screen readers go on at its title.
  useEffect(() => {
    document.title = `${name ?? view} - rowkey-server`;
    if (isShown) focusTitle();
    isShown = account;
  }, [view, name, account, search.rk]);
  const View = VIEWS[view];
  return html`<a class="skip" href="#main" onClick=${focusTitle}>Skip to the content</a>
    <nav aria-label="Views">
      <p class="brand"><img src="/icon.svg" alt="" width="18" height="18" /> rowkey-server</p>
      ${NAMES.map((one, at) => html`<a href=${href(one)} aria-current=${one === view ? 'page' : undefined}>${one} <kbd>${at + 1}</kbd></a>`)}
      ${choice('Account', 'account', accounts, account, (event) => { here.account = event.target.value; go(href(view)); })}
      ${button(html`Keys <kbd>?</kbd>`, help)}<small>${server?.version}</small>
    </nav>
    <main id="main"><${Problem} error=${error} />${account && html`<${View} key=${`${view}/${account}/${name}`} name=${name} search=${search} accounts=${accounts} />`}</main>
    <${Dialog} />`;
}

render(html`<${App} />`, document.body);
