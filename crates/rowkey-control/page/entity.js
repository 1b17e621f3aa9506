// One entity: its properties with types, edited under its ETag, and the rows that belong to it.
import { deleteEntity, getEntity, putEntity, queryAll } from './api.js';
import { keysOf, kindOf, namedBy, opOf, searches } from './rows.js';
import { KEYS, TYPES, invalid, withEnds } from './types.js';
import { Head, Problem, Scroll, button, choice, entityHref, go, headers, href, html, tag, useLoad, useRun, useState } from './ui.js';

export function Entity({ table, search: { pk, rk, isNew } }) {
  const { value, error, reload } = useLoad(async () => (isNew ? { values: new Map() } : getEntity(table, [pk, rk])), [pk, rk, isNew]);
  const key = JSON.stringify([pk, rk, value?.etag]);
  return html`<${Head} title=${isNew ? 'New entity' : `${pk} / ${rk}`} up=${['tables', table]} error=${error}>${value && kindOf(value) && tag(kindOf(value))}<//>
    ${value && html`<${Editor} key=${key} table=${table} row=${value} reload=${reload} />`}
    ${value?.etag && html`<${Related} key=${key} table=${table} row=${value} />`}`;
}

const draftOf = ({ values }) => [...values].filter(([name]) => !KEYS.includes(name)).map(([name, value]) => ({ name, ...value }));

function Editor({ table, row, reload }) {
  const isNew = !row.etag;
  const before = draftOf(row);
  const [keys, setKeys] = useState(keysOf(row));
  const [draft, setDraft] = useState(before);
  const [etag, setEtag] = useState(row.etag);
  const [run, error] = useRun();
  const change = (at, part) => setDraft(draft.map((one, index) => (index === at ? { ...one, ...part } : one)));
  const isSame = JSON.stringify(draft) === JSON.stringify(before);
  const isWrong = draft.some((one) => !one.name || invalid(one)) || new Set(draft.map((one) => one.name)).size < draft.length;
  const save = () => run(async () => {
    const all = [...KEYS.slice(0, 2).map((name, at) => ({ name, text: keys[at] })), ...draft];
    await putEntity(table, keys, new Map(all.map(({ name, ...value }) => [name, value])), etag);
    if (isNew) go(entityHref(table, keys));
    else {
      reload();
      // The button is gone with the older version.
      document.querySelector('h1').focus();
    }
  });
  const remove = () => run(async () => {
    await deleteEntity(table, keys, etag);
    go(href('tables', table));
  }, 'Delete this entity, if it is unchanged?');
  const adopt = () => run(async () => setEtag((await getEntity(table, keys)).etag));
  const line = (name, type, value) => html`<tr><th scope="row">${name}</th><td>${type}</td><td>${value}</td><td></td></tr>`;
  return html`${error?.status === 412
    ? html`<p class="problem" role="alert"><b>Conflict</b> The entity was changed after it was read. Your changes are not stored.
        ${button('Reload, discard mine', reload)} ${button('Keep mine', adopt)}</p>`
    : html`<${Problem} error=${error} />`}
    <${Scroll} label="Properties"><table class="editor">${headers(['Property', 'Type', 'Value', 'Actions'])}<tbody>
      ${keys.map((key, at) => line(KEYS[at], 'String', html`<input aria-label=${KEYS[at]} readonly=${!isNew} value=${key} onInput=${(event) => setKeys(keys.with(at, event.target.value))} />`))}
      ${draft.map((one, at) => html`<tr>
        <td><input aria-label="Name" value=${one.name} onInput=${(event) => change(at, { name: event.target.value })} /></td>
        <td>${choice(html`<span class="unseen">Type of ${one.name}</span>`, '', TYPES, one.type, (event) => change(at, { type: event.target.value }))}</td>
        <td><textarea rows="1" aria-label=${`Value of ${one.name}`} aria-invalid=${Boolean(invalid(one))} value=${one.text} spellcheck=${false} onInput=${(event) => change(at, { text: withEnds(one.text, event.target.value) })} />
          <small>${invalid(one)}</small></td>
        <td>${button('Remove', () => setDraft(draft.toSpliced(at, 1)), { 'aria-label': `Remove ${one.name}` })}</td></tr>`)}
      ${!isNew && html`${line('Timestamp', 'DateTime', html`<code>${row.values.get('Timestamp')?.text}</code>`)}${line('ETag', '', html`<code>${etag}</code>`)}`}
    </tbody></table><//>
    <div class="line">
      ${button(isNew ? 'Insert' : 'Save', save, { class: 'main', disabled: isWrong || (isSame && !isNew) })}
      ${button('Add property', () => setDraft([...draft, { name: '', type: 'String', text: '' }]))}
      ${!isNew && button('Delete', remove, { class: 'danger' })}
    </div>`;
}

/** Rows that this row names, and rows that name it. */
function Related({ table, row }) {
  const [isFar, setFar] = useState(false);
  const { near, ops, far } = searches(row);
  const { value = [], loading, error } = useLoad(async () => {
    const [close, writes, away] = await Promise.all([near, ops, isFar && far].map((filter) => (filter ? queryAll(table, filter) : [])));
    const link = (one, guess) => ({ what: `${kindOf(one) || 'row'} ${one.values.get('IndexName')?.text ?? ''}`, keys: keysOf(one), guess });
    const own = writes.map((one) => [one, opOf(one, row)]).filter(([, of]) => of);
    return [...namedBy(row), ...[...close, ...away].map((one) => link(one)), ...own.map(([one, of]) => link(one, of.guess))];
  }, [isFar]);
  return html`<section><h2>Rows that belong to it</h2><${Problem} error=${error} />
    ${value.length || loading ? html`<ul>${value.map(({ what, keys, guess }) => html`<li>${what} <a href=${entityHref(table, keys)}>${keys.join(' / ')}</a> ${guess && html`<i>guessed: ${guess}</i>`}</li>`)}</ul>` : html`<p class="quiet">None in this ${isFar ? 'table' : 'partition'}.</p>`}
    ${!isFar && html`<p>${button('Search the whole table', () => setFar(true))} <span class="quiet">copies and claims in other partitions, by a table scan</span></p>`}
  </section>`;
}
