// Blobs: the containers of an account, the blobs of one with their leases, and the beginning of a text.
import { elements, metadataOf, part, service, textOf } from './api.js';
import { Form, Head, List, Problem, Scroll, count, field, go, href, html, tag, time, useLoad } from './ui.js';

const SHOWN = 65536;

/** A column of an element of a list. */
const of = (name) => (one) => textOf(one, name);
const nameOf = of('Name');
const sizeOf = of('Content-Length');
const SHARED = {
  Lease: (one) => html`${tag(textOf(one, 'LeaseState'))} ${textOf(one, 'LeaseDuration')}`,
  Changed: of('Last-Modified'),
  ETag: (one) => html`<code>${textOf(one, 'Etag')}</code>`,
  Metadata: metadataOf,
};

export function Blobs({ name, search: { prefix = '', blob } }) {
  const path = name ? `${part(name)}?restype=container&include=metadata,snapshots&prefix=${part(prefix)}` : '?include=metadata';
  const { value, error } = useLoad(() => elements('blob', `${path}&comp=list`, name ? 'Blob' : 'Container'), [path]);
  if (!name) {
    const link = (one) => html`<a href=${href('blobs', nameOf(one))}>${nameOf(one)}</a>`;
    return html`<${Head} title="Containers" error=${error} /><${List} label="containers" records=${value} columns=${{ Container: link, ...SHARED }} />`;
  }
  const shown = value?.find((one) => nameOf(one) === blob);
  return html`<${Head} title=${name} up=${['blobs']} error=${error} />
    <${Form} submit=${(fields) => go(href('blobs', name, fields))}>${field('Prefix', 'prefix', { value: prefix })}<button class="main">List</button><//>
    <${List} label="blobs" records=${value} columns=${{
      Blob: (one) => html`<a href=${href('blobs', name, { prefix, blob: nameOf(one) })}>${nameOf(one)}</a> ${time(textOf(one, 'Snapshot'))}`,
      Type: of('BlobType'),
      Size: (one) => count(sizeOf(one)),
      'Content type': of('Content-Type'),
      Tier: of('AccessTier'),
      ...SHARED,
    }} />
    ${shown && html`<${Preview} key=${blob} path=${[name, ...blob.split('/')].map(part).join('/')} size=${sizeOf(shown)} />`}`;
}

function Preview({ path, size }) {
  const headers = size > SHOWN ? { range: `bytes=0-${SHOWN - 1}` } : {};
  const { value, error } = useLoad(async () => (await service('blob', path, { headers })).text(), []);
  // A character may be cut at the end.
  const text = /[\0\uFFFD]/.test(value?.slice(0, -1)) ? 'Not a text.' : value;
  return html`<section><h2>${path} ${size > SHOWN && html`<small>the first 64 KiB</small>`}</h2>
    <${Problem} error=${error} /><${Scroll} label="Contents"><pre>${text}</pre><//></section>`;
}
