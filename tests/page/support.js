// What the tests of the page share: a server with a control plane, requests to its services, and the browser.
import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

export const ACCOUNT = 'devstoreaccount1';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// Without these, Chromium asks hosts of its maker at every start.
const QUIET = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Starts a server on free ports; `stop` ends it. */
export async function startServer(...flags) {
  const binary = process.env.ROWKEY_SERVER;
  assert.ok(binary, 'ROWKEY_SERVER names the program; tests/page/run sets it');
  const child = spawn(binary, ['--blob-port', '0', '--queue-port', '0', '--table-port', '0', '--control-port', '0', ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  let line = '';
  for await (const chunk of child.stdout) {
    line += chunk;
    if (line.includes('\n')) break;
  }
  assert.ok(line, 'the server has printed its ready line');
  const ready = JSON.parse(line);
  return { ...ready, stop: () => child.kill() };
}

export const startBrowser = () =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: [...QUIET, ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])] });

/** Opens a tab; problems that the browser reports go to `problems`. */
export async function open(browser, { scheme = 'light', problems = [] } = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: scheme });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problems.push(message.text());
  });
  page.setDefaultTimeout(15_000);
  return page;
}

/** What axe says against what the tab shows. */
export async function violations(page) {
  await page.evaluate(`${AXE};0`);
  const { violations: found } = await page.evaluate(() => globalThis.axe.run());
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join('; ')}`);
}

/** Requests to the control plane and, through it, to the services. */
export function client(control) {
  const send = async (path, { method = 'GET', headers, body } = {}) => {
    const response = await fetch(`${control}${path}`, { method, headers, body });
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${response.ok || (await response.text())}`);
    return response;
  };
  const json = { 'content-type': 'application/json', accept: 'application/json;odata=nometadata' };
  const data = (service, path, method, body, headers) =>
    send(`/v1/data/${service}/${ACCOUNT}/${path}`, { method, body, headers: { 'x-ms-version': '2021-12-02', ...headers } });
  return {
    send,
    post: (path, body) => send(path, { method: 'POST', headers: json, body: JSON.stringify(body) }),
    table: (path, method, body, headers) => data('table', path, method, body && JSON.stringify(body), { ...json, ...headers }),
    queue: (path, method, body) => data('queue', path, method, body),
    blob: (path, method, body, headers) => data('blob', path, method, body, headers),
    /** Inserts entities of one partition, 100 by each transaction. */
    async insertAll(table, entities) {
      const insert = async (from) => {
        const parts = entities.slice(from, from + 100).map((entity) => [
          '--c', 'Content-Type: application/http', 'Content-Transfer-Encoding: binary', '', `POST http://localhost/${ACCOUNT}/${table} HTTP/1.1`,
          'Content-Type: application/json', 'Accept: application/json;odata=nometadata', 'Prefer: return-no-content', '', JSON.stringify(entity),
        ].join('\r\n'));
        const body = ['--b', 'Content-Type: multipart/mixed; boundary=c', '', ...parts, '--c--', '--b--', ''].join('\r\n');
        const response = await data('table', '$batch', 'POST', body, { 'content-type': 'multipart/mixed; boundary=b', dataserviceversion: '3.0' });
        const text = await response.text();
        assert.equal(text.split('HTTP/1.1 204').length - 1, parts.length, text.slice(0, 500));
      };
      const starts = Array.from({ length: Math.ceil(entities.length / 100) }, (_, at) => at * 100);
      await Promise.all(Array.from({ length: 8 }, async () => {
        for (let from = starts.shift(); from !== undefined; from = starts.shift()) await insert(from);
      }));
    },
  };
}

/** An address of a service with a shared access signature: a request as programs send it, which faults and the journal see. */
export function signed(server, service, path) {
  const key = Buffer.from(/AccountKey=([^;]+)/.exec(server.connectionString)[1], 'base64');
  const [version, expiry, permissions] = ['2021-12-02', '2099-01-01T00:00:00Z', 'rwdlacup'];
  const text = [ACCOUNT, permissions, 'bqt', 'sco', '', expiry, '', '', version, '', ''].join('\n');
  const sig = createHmac('sha256', key).update(text).digest('base64');
  const token = new URLSearchParams({ sv: version, ss: 'bqt', srt: 'sco', sp: permissions, se: expiry, sig });
  return `${server[service]}/${path}${path.includes('?') ? '&' : '?'}${token}`;
}

const MARK = '00000000000000ff';

/** What the views show: orders as a store writes them, queues, and blobs. */
export async function fill({ table, queue, blob, insertAll }) {
  for (const name of ['orders', 'customers']) await table('Tables', 'POST', { TableName: name });
  const orders = Array.from({ length: 230 }, (_, at) => ({
    PartitionKey: 'contoso',
    RowKey: `order_${String(at + 1).padStart(6, '0')}`,
    Customer: ['ada', 'grace', 'don', 'edsger'][at % 4],
    Cents: (at + 1) * 1250,
    Weight: at % 3 ? at * 0.25 : String(at / 2),
    ...(at % 3 ? { 'Weight@odata.type': 'Edm.Double' } : {}),
    Placed: new Date(Date.UTC(2026, 8, 1) + at * 3_700_000).toISOString(),
    'Placed@odata.type': 'Edm.DateTime',
    Open: at % 2 === 0,
    Serial: String(9_007_199_254_740_993n + BigInt(at)),
    'Serial@odata.type': 'Edm.Int64',
    EntityOp: (at + 1).toString(16).padStart(16, '0'),
  }));
  await insertAll('orders', orders);
  const whole = { Customer: 'ada', Number: 'A-17', Cents: 4200, EntityOp: MARK };
  for (const row of [
    { PartitionKey: 'contoso', RowKey: 'order_000900', ...whole },
    { PartitionKey: 'contoso', RowKey: 'customer_ada_order_000900', PrimaryRowKey: 'order_000900', IndexName: 'by_customer', ...whole },
    { PartitionKey: 'courier_kim', RowKey: 'contoso_900', PrimaryPartitionKey: 'contoso', PrimaryRowKey: 'order_000900', IndexName: 'by_courier', ...whole },
    { PartitionKey: 'unique_order_by_number_A-17', RowKey: 'claim', RowFormat: 1, OwnerPartition: 'contoso', OwnerRow: 'order_000900', OpRow: `op_0638992368000000000_${MARK}` },
    {
      PartitionKey: 'contoso', RowKey: `op_0638992368000000000_${MARK}`, RowFormat: 1, Created: '2026-01-01T00:00:00Z', 'Created@odata.type': 'Edm.DateTime',
      Targets: JSON.stringify([{ rowKey: 'order_000900', of: 'order_', declaration: 'by_courier', address: 'courier_kim\ncontoso_900' }]),
    },
  ]) await table('orders', 'POST', row);

  for (const name of ['mails', 'mails-poison']) await queue(name, 'PUT');
  const put = (name, text, hidden) => queue(`${name}/messages?visibilitytimeout=${hidden}`, 'POST', `<QueueMessage><MessageText>${text}</MessageText></QueueMessage>`);
  await put('mails', '{"order":900}', 0);
  await put('mails', Buffer.from('{"order":901}').toString('base64'), 3600);
  await put('mails-poison', 'a message that failed', 0);

  await blob('photos?restype=container', 'PUT');
  const block = { 'x-ms-blob-type': 'BlockBlob' };
  await blob('photos/readme.txt', 'PUT', 'Photos of parcels.\nOne folder for each day.\n', { ...block, 'x-ms-blob-content-type': 'text/plain', 'x-ms-meta-by': 'ada' });
  await blob('photos/2026/01/a%20b.jpg', 'PUT', new Uint8Array(150_000), { ...block, 'x-ms-blob-content-type': 'image/jpeg' });
  await blob('photos/readme.txt?comp=lease', 'PUT', undefined, { 'x-ms-lease-action': 'acquire', 'x-ms-lease-duration': '-1' });
}
