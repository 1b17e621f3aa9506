// The journal, live: each request as the server receives it, with the reason of each refusal.
import { control, send } from './api.js';
import { Head, Scroll, button, count, field, headers, html, tag, tick, time, useEffect, useRef, useRun, useState } from './ui.js';

const KEPT = 1000;
const SHOWN = 200;
let frame;

/** Calls `entry` for each event of a stream. (An EventSource cannot send a token.) */
async function follow(response, entry) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error('The stream has ended; reload the page.');
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const data = /^data: ?(.*)$/m.exec(event);
      if (data) entry(JSON.parse(data[1]));
    }
  }
}

export function Journal() {
  const [entries, setEntries] = useState([]);
  const [text, setText] = useState('');
  const [isRefused, setRefused] = useState(false);
  const [isPaused, setPaused] = useState(false);
  const [run, error] = useRun();
  const { current: all } = useRef(new Map());
  const paused = useRef();
  paused.current = isPaused;
  const show = () => setEntries([...all.values()].sort((one, other) => other.number - one.number));
  const add = (one) => {
    all.set(one.number, one);
    if (all.size > KEPT) all.delete(all.keys().next().value);
    // Many requests may come in one frame; they are shown together.
    frame ??= requestAnimationFrame(() => {
      frame = undefined;
      if (!paused.current) show();
    });
  };
  useEffect(() => {
    const stop = new AbortController();
    run(async () => {
      try {
        // First the stream, then the list: no request is between them, and one in both is kept once.
        const stream = await send('/v1/journal/events', { signal: stop.signal });
        (await control('GET', `journal?limit=${KEPT}`)).entries.forEach(add);
        await follow(stream, add);
      } catch (failed) {
        if (!stop.signal.aborted) throw failed;
      }
    });
    return () => stop.abort();
  }, []);
  const clear = () => run(async () => {
    await control('DELETE', 'journal');
    all.clear();
    show();
  }, 'Clear the journal?');
  const words = text.toLowerCase().split(' ');
  const found = entries.filter((one) => !(isRefused && one.status < 400) && words.every((word) => JSON.stringify(one).toLowerCase().includes(word)));
  return html`<${Head} title="Journal" error=${error}>${button(isPaused ? 'Go on' : 'Pause', () => setPaused(!isPaused))}${button('Clear', clear, { class: 'danger' })}<//>
    <div class="line">${field('Filter', 'words', { value: text, size: 40, placeholder: 'operation, table, status, code', onInput: (event) => setText(event.target.value) })}
      <span onChange=${() => setRefused(!isRefused)}>${tick('failed', 'refused', isRefused)}</span>
      <span class="quiet" role="status">Requests: ${count(found.length)}</span></div>
    <${Scroll} label="Requests" class="scroll grid"><table>${headers(['No.', 'Time', 'Operation', 'Account', 'About', 'Status', 'Stored', 'Reason'])}
      <tbody>${found.slice(0, SHOWN).map((one) => html`<${Entry} key=${one.number} ...${one} />`)}</tbody></table><//>`;
}

const Entry = ({ number, at, service, operation, account, resource, status, committed, code, rule, stringToSign, fault }) => html`<tr>
  <td>${number}</td><td>${time(at)}</td><td>${operation} <i>${service}</i></td><td>${account}</td><td>${resource}</td>
  <td>${tag(status ?? 'broken', status < 400 ? 'ok' : 'error')}</td><td>${committed && 'yes'}</td>
  <td class="reason">${fault && tag(`fault ${fault}`)} ${code} ${rule}${stringToSign && html`<details><summary>string to sign</summary><pre>${stringToSign}</pre></details>`}</td></tr>`;
