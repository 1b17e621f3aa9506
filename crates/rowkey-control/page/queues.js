// Queues: the list of an account, and the messages of one, hidden ones included.
import { control, elements, here, metadataOf, part, service, textOf } from './api.js';
import { Form, Head, List, button, field, href, html, tag, tick, time, useLoad } from './ui.js';

/** A message that was received more often is poisoned, as is each message of a queue named so. */
const TRIES = 5;
const isPoisoned = (queue, { dequeueCount }) => dequeueCount > TRIES || queue.endsWith('-poison');
const messagesOf = async (queue) => (await control('GET', `queues/${part(here.account)}/${part(queue)}`)).messages;

export const Queues = ({ name }) => html`<${name ? Messages : AllQueues} queue=${name} />`;

function AllQueues() {
  const { value, error, run } = useLoad(async () => Promise.all((await elements('queue', '?comp=list&include=metadata', 'Queue')).map(async (one) => {
    const name = textOf(one, 'Name');
    return { name, metadata: metadataOf(one), messages: await messagesOf(name) };
  })), []);
  const count = (test) => ({ name, messages }) => messages.filter((one) => test(one, name)).length;
  return html`<${Head} title="Queues" error=${error}><${Form} submit=${({ name }) => run(() => service('queue', part(name), { method: 'PUT' }))}>
      ${field('New queue', 'name', { required: true })}<button>Create</button><//><//>
    <${List} label="queues" records=${value} columns=${{
      Queue: ({ name }) => html`<a href=${href('queues', name)}>${name}</a>`,
      Visible: count((one) => one.state === 'visible'),
      Hidden: count((one) => one.state === 'hidden'),
      Poisoned: count((one, name) => isPoisoned(name, one)),
      Metadata: ({ metadata }) => metadata,
    }} />`;
}

function Messages({ queue }) {
  const { value, error, run } = useLoad(() => messagesOf(queue), []);
  const put = ({ text, base64, delay }, form) => run(async () => {
    const sent = base64 ? btoa(String.fromCharCode(...new TextEncoder().encode(text))) : new Option(text).innerHTML;
    const body = `<QueueMessage><MessageText>${sent}</MessageText></QueueMessage>`;
    await service('queue', `${part(queue)}/messages?visibilitytimeout=${delay || 0}`, { method: 'POST', body });
    form.reset();
  });
  const clear = () => run(() => service('queue', `${part(queue)}/messages`, { method: 'DELETE' }), `Delete all messages of ${queue}?`);
  return html`<${Head} title=${queue} up=${['queues']} error=${error}>${button('Clear', clear, { class: 'danger' })}<//>
    <${Form} submit=${put}>
      ${field('Text', 'text', { required: true, size: 40 })}${field('Hidden for', 'delay', { type: 'number', min: 0, placeholder: '0 seconds' })}
      ${tick('Base64', 'base64')}<button class="main">Put</button>
    <//>
    <${List} label="messages" records=${value} columns=${{
      State: (one) => html`${tag(one.state)} ${isPoisoned(queue, one) && tag('poisoned', 'error')}`,
      Text: ({ text }) => html`<code>${text.slice(0, 300)}</code> <i>${decoded(text)}</i>`,
      Received: ({ dequeueCount }) => dequeueCount,
      Inserted: ({ insertedAt }) => time(insertedAt),
      Visible: ({ visibleAt }) => time(visibleAt),
      Expires: ({ expiresAt }) => time(expiresAt),
      Id: ({ id }) => html`<code>${id}</code>`,
    }} />`;
}

/** What Base64 stands for, if it is text. */
function decoded(text) {
  try {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt());
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).slice(0, 300);
  } catch {
    return undefined;
  }
}
