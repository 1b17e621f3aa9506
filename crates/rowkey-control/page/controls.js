// Controls: what tests do to the server, by hand. Each shows the state that the server answers.
import { control, send } from './api.js';
import { Form, Head, List, Problem, button, choice, field, html, tag, tick, time, useLoad, useRun } from './ui.js';

/** A section for one resource. `view` gets its state, and `act(method, path, body, question)`, which loads it again. */
function Control({ title, path, view }) {
  const { value, error, run } = useLoad(() => control('GET', path), []);
  const act = (method, of, body, question) => run(() => control(method, of, body), question);
  return html`<section><h2>${title}</h2><${Problem} error=${error} />${value && view(value, act)}</section>`;
}

const whole = (label, name, more) => field(label, name, { type: 'number', min: 0, ...more });
const set = (isOn, act, path) => html`<button class="main">Set</button>${isOn && button('Off', () => act('DELETE', path))}`;
const remove = (path, what = 'Remove') => (act) => ({ Actions: ({ id }) => button(what, () => act('DELETE', `${path}/${id}`), { 'aria-label': `${what} ${id} of ${path}` }) });

const SERVICES = ['', 'table', 'queue', 'blob'];
const ACTIONS = ['closeAfterCommit', 'closeBeforeCommit', 'hold', 'reject', 'delayMs', 'truncate'];
/** What an action is given if its field is empty. */
const GIVEN = { reject: 'ServerBusy', delayMs: 1000, truncate: 0 };

function Faults({ faults }, act) {
  const add = ({ action, argument, ...fields }) => {
    const given = argument || GIVEN[action];
    act('POST', 'faults', { ...fields, action: action in GIVEN ? { [action]: action === 'reject' ? given : Number(given) } : action });
  };
  return html`<${Form} submit=${add}>
      ${field('Operation', 'operation', { placeholder: 'any' })}${choice('Service', 'service', SERVICES)}${field('About', 'resource', { placeholder: 'any' })}
      ${whole('From the', 'nth', { placeholder: '1st' })}${whole('Times', 'times', { placeholder: 'all' })}
      ${choice('Action', 'action', ACTIONS)}${field('with', 'argument', { placeholder: 'code, ms or bytes' })}<button class="main">Add fault</button>
    <//>
    <${List} label="faults" records=${faults} columns=${{
      Id: ({ id }) => id,
      Requests: ({ fault: { action, ...rest } }) => Object.entries(rest).filter(([, value]) => value).flat().join(' ') || 'all',
      Action: ({ fault: { action } }) => (action.at ? action : Object.entries(action).flat().join(' ')),
      Hits: ({ hits }) => hits,
      Held: ({ id, held }) => html`${held} ${held > 0 && button('Release', () => act('POST', `faults/${id}/release`))}`,
      ...remove('faults')(act),
    }} />`;
}

const Clock = ({ now, frozen }, act) => html`<${Form} submit=${(by) => act('POST', 'clock/advance', by)}>
  <output>${time(now)} UTC</output>${tag(frozen ? 'frozen' : 'running')}${whole('Seconds', 'seconds', { step: 'any', required: true, value: 60 })}<button class="main">Advance</button>
  ${frozen ? button('Follow', () => act('POST', 'clock/follow')) : button('Freeze', () => act('POST', 'clock/freeze'))}<//>`;

const TARGETS = { requestsPerAccount: 20000, entitiesPerPartition: 2000, messagesPerQueue: 2000 };
const Throttle = ({ targets }, act) => html`<${Form} submit=${(fields) => act('PUT', 'throttle', fields)}>
  ${tag(targets ? 'on' : 'off')}${Object.entries(TARGETS).map(([name, placeholder]) => whole(name, name, { placeholder, value: targets?.[name] }))}${set(targets, act, 'throttle')}<//>`;

const CUTS = ['cut', 'empty', 'partitionOnly'];
const Pages = ({ pages, cuts }, act) => html`<${Form} submit=${(fields) => act('PUT', 'pages', fields)}>
  ${tag(pages ? `${cuts} cuts` : 'off')}${whole('Seed', 'seed', { required: true, value: pages?.seed ?? 7 })}${CUTS.map((kind) => tick(kind, kind, pages?.[kind] ?? true))}${set(pages, act, 'pages')}<//>`;

const Secondary = ({ heldBack, since }, act) => html`<p class="line">${tag(heldBack ? `held back since ${time(since)}` : 'follows the primary')}
  ${heldBack ? button('Let it follow', () => act('DELETE', 'secondary')) : button('Hold back now', () => act('PUT', 'secondary'))}</p>`;

const Snapshots = ({ snapshots }, act) => html`${button('Take a snapshot', () => act('POST', 'snapshots'))}
  <${List} label="snapshots" records=${snapshots} columns=${{
    Id: ({ id }) => id,
    Taken: ({ at }) => time(at),
    Data: ({ id }) => button('Restore', () => act('POST', `snapshots/${id}/restore`, undefined, `Replace all data by snapshot ${id}?`)),
    ...remove('snapshots')(act),
  }} />`;

const Forks = ({ forks }, act) => html`${button('Fork', () => act('POST', 'forks'))}
  <${List} label="forks" records=${forks} columns=${{ Id: ({ id }) => id, Control: (fork) => html`<a href=${fork.control}>${fork.control}</a>`, ...remove('forks', 'End')(act) }} />`;

function State({ accounts }) {
  const [run, error] = useRun(() => dispatchEvent(new Event('reload')));
  const save = () => run(async () => {
    const url = URL.createObjectURL(await (await send('/v1/state')).blob());
    Object.assign(document.createElement('a'), { href: url, download: 'rowkey-state' }).click();
  });
  const load = ({ target: { files: [body] } }) => run(() => send('/v1/state', { method: 'PUT', body, headers: { 'content-type': 'application/octet-stream' } }), `Replace all data by ${body.name}?`);
  const reset = (fields) => {
    const names = Object.values(fields).join(', ');
    run(() => control('POST', 'reset', fields), `Delete ${names ? `the data of ${names}` : 'all data, faults and the journal'}?`);
  };
  return html`<section><h2>State</h2><${Problem} error=${error} />
    <div class="line">${button('Export', save)}${field('Import', 'file', { type: 'file', onChange: load })}</div>
    <${Form} submit=${reset}>${choice('Account', 'account', ['', ...accounts])}${choice('Service', 'service', SERVICES)}<button class="danger">Reset</button><//></section>`;
}

const ALL = { Faults, Clock, Throttle, Pages, Secondary, Snapshots, Forks };

export const Controls = ({ accounts }) => html`<${Head} title="Controls" />
  <div class="controls">${Object.entries(ALL).map(([title, view]) => html`<${Control} title=${title} path=${title.toLowerCase()} view=${view} />`)}<${State} accounts=${accounts} /></div>`;
