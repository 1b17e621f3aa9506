// Tables: the list of an account, and one table with its filter, the cost of the filter, and pages of rows.
import { createTable, deleteTable, query, tables } from './api.js';
import { COSTS, costOf } from './cost.js';
import { Entity } from './entity.js';
import { keysOf, kindOf } from './rows.js';
import { columnsOf } from './types.js';
import { Form, Head, List, Scroll, button, choice, count, entityHref, field, go, href, html, tag, time, useEffect, useLoad, useState } from './ui.js';

export function Tables({ name, search }) {
  const { value, error, run } = useLoad(async () => (name ? undefined : tables()), []);
  if (name) return html`<${'rk' in search ? Entity : Table} table=${name} search=${search} />`;
  return html`<${Head} title="Tables" error=${error}><${Form} submit=${({ name: table }, form) => run(async () => { await createTable(table); form.reset(); })}>
      ${field('New table', 'name', { required: true })}<button>Create</button><//><//>
    <${List} label="tables" records=${value} columns=${{
      Table: (table) => html`<a href=${href('tables', table)}>${table}</a>`,
      Entities: (table) => html`<${Entities} key=${table} table=${table} />`,
      Actions: (table) => button('Delete', () => run(() => deleteTable(table), `Delete ${table} and its entities?`), { 'aria-label': `Delete ${table}` }),
    }} />`;
}

/** Counts entities up to here: each 1000 cost one request. */
const COUNTED = 100_000;

function Entities({ table }) {
  const [so, setSo] = useState('');
  const { error } = useLoad(async () => {
    let sum = 0;
    let next;
    do {
      const page = await query(table, { select: 'PartitionKey', next });
      next = page.next;
      sum += page.rows.length;
      setSo(count(sum) + (next ? '+' : ''));
    } while (next && sum < COUNTED);
  }, []);
  return error?.message ?? so;
}

function Table({ table, search }) {
  const { filter = '', select = '', top = '100' } = search;
  const [typed, setTyped] = useState(filter);
  useEffect(() => setTyped(filter), [filter]);
  // The continuation tokens of the pages up to this one; the first page has none. They are those of one query.
  const asked = JSON.stringify(search);
  const [turned, turn] = useState({});
  const tokens = turned.asked === asked ? turned.tokens : [];
  const { value, error, loading } = useLoad(
    () => query(table, { filter, select: select && `PartitionKey,RowKey,${select}`, top, next: tokens.at(-1) }),
    [asked, tokens.length],
  );
  const next = !loading && value?.next;
  return html`<${Head} title=${table} up=${['tables']} error=${error}><a class="button" href=${href('tables', table, { pk: '', rk: '', isNew: true })}>Insert entity</a><//>
    <${Form} submit=${(fields) => go(href('tables', table, fields))}>
      ${field('Filter', 'filter', { value: typed, size: 60, placeholder: "PartitionKey eq 'contoso' and RowKey ge 'order_'", onInput: (event) => setTyped(event.target.value), 'aria-describedby': 'cost' })}
      ${field('Select', 'select', { value: select, placeholder: 'all properties' })}
      ${choice('Page', 'top', ['50', '100', '500', '1000'], top)}<button class="main">Query</button>
    <//>
    <p id="cost" role="status">${cost(typed)}</p>
    ${value && html`<${Grid} key=${asked + tokens.length} table=${table} rows=${value.rows} />`}
    <div class="line">
      ${button(html`Previous <kbd>p</kbd>`, () => turn({ asked, tokens: tokens.slice(0, -1) }), { id: 'previous', disabled: !tokens.length })}
      ${button(html`Next <kbd>n</kbd>`, () => turn({ asked, tokens: [...tokens, next] }), { id: 'next', disabled: !next })}
      <span role="status">Page ${tokens.length + 1}: ${loading ? 'loading' : value && `${count(value.rows.length)} entities, ${next ? 'and a continuation token' : 'the last page'}`}</span>
    </div>`;
}

function cost(filter) {
  try {
    const of = costOf(filter);
    return html`${tag(of)} ${COSTS[of]}`;
  } catch (error) {
    return html`${tag('not a filter', 'error')} ${error.message}`;
  }
}

const HEIGHT = 28;
const AROUND = 12;

/** Rows of one page. Only those in sight are elements, so a page of 1000 scrolls as one of 50. */
function Grid({ table, rows }) {
  const [{ top, height }, setSeen] = useState({ top: 0, height: innerHeight });
  const first = Math.max(0, Math.floor(top / HEIGHT) - AROUND);
  const last = Math.min(rows.length, first + Math.ceil(height / HEIGHT) + 2 * AROUND);
  const columns = columnsOf(rows);
  const space = (hidden) => hidden > 0 && html`<tr aria-hidden="true" style=${{ height: `${hidden * HEIGHT}px` }}></tr>`;
  const seen = ({ target }) => setSeen({ top: target.scrollTop, height: target.clientHeight });
  return html`<${Scroll} label=${`Entities of ${table}`} class="scroll grid" onScroll=${seen}><table aria-rowcount=${rows.length + 1}>
    <thead><tr aria-rowindex="1"><th scope="col">Row</th>${columns.map(({ name, types }) => html`<th scope="col">${name} <i>${types.length > 1 ? 'mixed' : types[0]}</i></th>`)}</tr></thead>
    <tbody>${space(first)}${rows.slice(first, last).map((row, at) => html`<tr key=${first + at} aria-rowindex=${first + at + 2}>
      <td><a href=${entityHref(table, keysOf(row))}>${kindOf(row) || 'entity'}</a></td>
      ${columns.map(({ name, types }) => cell(row.values.get(name), types.length > 1))}</tr>`)}${space(rows.length - last)}</tbody>
  </table><//>`;
}

const cell = (value, isMixed) => value
  ? html`<td class=${value.type} title=${value.text.slice(0, 500)}>${value.type === 'DateTime' ? time(value.text) : value.text.slice(0, 100)}${isMixed && html` <i>${value.type}</i>`}</td>`
  : html`<td></td>`;
