// The page in Chromium: each view in light and dark, by keyboard, with conflicts, faults, the live journal and 100,000 rows.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ACCOUNT, client, fill, open, signed, startBrowser, startServer, violations } from './support.js';

let server;
let requests;
let browser;

before(async () => {
  server = await startServer();
  requests = client(server.control);
  await fill(requests);
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  server?.stop();
});

const ORDERS = "PartitionKey eq 'contoso' and RowKey ge 'order_'";
const at = (view, name = '', search = {}) => `${server.control}/#/${view}/${ACCOUNT}/${name}?${new URLSearchParams(search)}`;
const entity = (pk, rk, table = 'orders') => at('tables', table, { pk, rk });

/** Each view with what shows that it is there. */
const VIEWS = {
  tables: [() => at('tables'), 'text=customers'],
  table: [() => at('tables', 'orders', { filter: ORDERS }), 'text=order_000001'],
  entity: [() => entity('contoso', 'order_000900'), 'text=copy by_customer'],
  'new entity': [() => at('tables', 'orders', { pk: '', rk: '', isNew: true }), 'text=Insert'],
  queues: [() => at('queues'), 'text=mails-poison'],
  queue: [() => at('queues', 'mails'), 'text=hidden'],
  containers: [() => at('blobs'), 'text=photos'],
  blobs: [() => at('blobs', 'photos', { blob: 'readme.txt' }), 'text=One folder for each day.'],
  journal: [() => at('journal'), 'text=AuthenticationFailed'],
  controls: [() => at('controls'), 'text=Take a snapshot'],
};

/** A tab for one test; it fails if the browser reports a problem other than `expected`. */
async function tab(t, address, { scheme, expected } = {}) {
  const problems = [];
  const page = await open(browser, { scheme, problems });
  t.after(async () => {
    await page.close();
    assert.deepEqual(problems.filter((one) => !expected?.test(one)), []);
  });
  if (address) {
    await page.goto(address);
    await page.waitForSelector('main h1');
  }
  return page;
}

const focused = (page) => page.evaluate(() => document.activeElement.textContent || document.activeElement.name);
const rejected = () => fetch(`${server.table}/orders()?sig=none&sv=2021-12-02&ss=t&srt=o&sp=r&se=2099-01-01T00:00:00Z`);

for (const scheme of ['light', 'dark']) {
  for (const [name, [address, shown]] of Object.entries(VIEWS)) {
    test(`${name}, ${scheme}: no violation of axe`, async (t) => {
      await rejected();
      const page = await tab(t, address(), { scheme });
      await page.waitForSelector(shown);
      assert.deepEqual(await violations(page), []);
    });
  }
}

test('dialogs have no violation of axe, and Esc dismisses them', async (t) => {
  const page = await tab(t, at('tables'));
  await page.keyboard.press('?');
  await page.waitForSelector('dialog');
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
});

test('the page is loaded from its origin alone, without inline code', async (t) => {
  const response = await fetch(server.control);
  assert.match(response.headers.get('content-security-policy'), /default-src 'self'/);
  assert.doesNotMatch(response.headers.get('content-security-policy'), /unsafe/);
  assert.doesNotMatch(await response.text(), /style=|<style|<script(?! type="module" src="\/)/);
  const page = await open(browser);
  t.after(() => page.close());
  const hosts = new Set();
  page.on('request', (request) => hosts.add(new URL(request.url()).origin));
  await page.goto(at('tables', 'orders'));
  await page.waitForSelector('text=order_000001');
  assert.deepEqual([...hosts], [server.control]);
});

test('the first paint is measured', async (t) => {
  const page = await tab(t, at('tables', 'orders'));
  await page.waitForSelector('text=order_000001');
  await page.reload();
  await page.waitForSelector('text=order_000001');
  const [first, largest] = await page.evaluate(async () => {
    const entries = (type) => new Promise((done) => { new PerformanceObserver((list) => done(list.getEntries())).observe({ type, buffered: true }); });
    const paints = await entries('paint');
    return [paints.find(({ name }) => name === 'first-contentful-paint'), (await entries('largest-contentful-paint')).at(-1)].map(({ startTime }) => startTime);
  });
  // Printed and not asserted: it depends on what else the machine does.
  console.log(`first contentful paint after ${Math.round(first)} ms (goal: below 200 ms), the largest after ${Math.round(largest)} ms`);
  assert.ok(first > 0 && largest >= first);
});

test('everything is reached by the keyboard', async (t) => {
  const page = await tab(t, at('tables'));
  await page.waitForSelector('text=customers');
  for (const [key, title] of [['2', 'Queues'], ['3', 'Containers'], ['4', 'Journal'], ['5', 'Controls'], ['1', 'Tables']]) {
    await page.keyboard.press(key);
    await page.waitForSelector(`h1:text-is("${title}")`);
    await page.waitForFunction((expected) => document.activeElement.textContent === expected, title);
  }
  await page.goto('about:blank');
  await page.goto(at('tables', 'orders', { top: 50 }));
  await page.waitForSelector('text=customer_ada_order_000900');
  await page.keyboard.press('Tab');
  assert.equal(await focused(page), 'Skip to the content');
  await page.keyboard.press('Enter');
  assert.equal(await focused(page), 'tables / orders');

  await page.keyboard.press('/');
  await page.keyboard.type(ORDERS);
  await page.waitForSelector('#cost >> text=range query');
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=order_000050');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('n');
  await page.waitForSelector('text=Page 2: 50 entities');
  await page.keyboard.press('p');
  await page.waitForSelector('text=Page 1: 50 entities');

  await page.focus('tbody a');
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(ring, 'solid', 'the focus is visible');
  await page.keyboard.press('Enter');
  await page.waitForSelector('h1 >> text=contoso / order_000001');
});

test('the cost of a filter is shown as it is typed, and what is no filter is said', async (t) => {
  const page = await tab(t, at('tables', 'orders'));
  for (const [filter, shown] of [
    ['', 'table scan'], ["PartitionKey eq 'contoso'", 'partition scan'], [ORDERS, 'range query'],
    ["PartitionKey eq 'contoso' and RowKey eq 'order_000001'", 'point query'], ['PartitionKey eq', 'a property or a value is missing'],
  ]) {
    await page.fill('input[name=filter]', filter);
    await page.waitForSelector(`#cost >> text=${shown}`);
  }
});

test('an error of the service is shown with its code', async (t) => {
  const page = await tab(t, at('tables', 'missing'), { expected: /40[04]/ });
  assert.equal(await page.textContent('[role=alert]'), '404 TableNotFound The table specified does not exist.');
  await page.goto(at('tables', 'orders', { filter: "PartitionKey eq 'a' and Open eq" }));
  await page.waitForSelector('[role=alert] >> text=InvalidInput');
});

test('columns show types, and cells theirs where they are mixed', async (t) => {
  const page = await tab(t, at('tables', 'orders', { filter: ORDERS, select: 'Weight,Serial' }));
  await page.waitForSelector('th:has-text("Weight") >> text=mixed');
  await page.waitForSelector('th:has-text("Serial") >> text=Int64');
  await page.waitForSelector('td:has-text("9007199254740993")');
  const cells = await page.locator('tbody td:nth-child(5)').allTextContents();
  assert.ok(cells.some((cell) => cell.endsWith(' Double')) && cells.some((cell) => cell.endsWith(' String')));
  assert.equal(await page.locator('th:has-text("Customer")').count(), 0);
});

test('an entity is changed without a change of the types of others', async (t) => {
  const typed = { Whole: 5, 'Whole@odata.type': 'Edm.Double', Large: '9007199254740993', 'Large@odata.type': 'Edm.Int64', Name: 'x' };
  await requests.table('customers', 'POST', { PartitionKey: "o'hara", RowKey: '', ...typed });
  const page = await tab(t, entity("o'hara", '', 'customers'));
  await page.fill('[aria-label="Value of Name"]', 'changed');
  await page.click('text=Save');
  await page.waitForSelector('button:text-is("Save"):disabled');
  assert.equal(await focused(page), "customers / o'hara / ");
  const stored = await (await requests.table("customers(PartitionKey='o''hara',RowKey='')", 'GET', undefined, { accept: 'application/json;odata=fullmetadata' })).text();
  assert.match(stored, /"Name":"changed"/);
  assert.match(stored, /"Whole":5\.0/);
  assert.match(stored, /"Large@odata.type":"Edm.Int64","Large":"9007199254740993"/);
});

test('properties that are not changed are stored as they were', async (t) => {
  const json = { 'content-type': 'application/json', accept: 'application/json;odata=minimalmetadata', 'x-ms-version': '2021-12-02' };
  const path = (rest) => `/v1/data/table/${ACCOUNT}/customers${rest}`;
  const values = '"Zero":-0.0,"__proto__":"kept","Mark":"\\u0000double 1.5","Lines":"one\\r\\ntwo\\n","Far":1e300,"Name":"x"';
  await requests.send(path(''), { method: 'POST', headers: json, body: `{"PartitionKey":"exact","RowKey":"1",${values}}` });
  const page = await tab(t, entity('exact', '1', 'customers'));
  const save = async (name, text) => {
    await page.fill(`[aria-label="Value of ${name}"]`, text);
    await page.click('text=Save');
    await page.waitForSelector('button:text-is("Save"):disabled');
    const stored = await (await requests.send(path("(PartitionKey='exact',RowKey='1')"), { headers: json })).text();
    const value = (of) => new RegExp(`"${of}":("(?:[^"\\\\]|\\\\.)*"|[^,}]*)`).exec(stored)?.[1];
    assert.deepEqual(['Zero', '__proto__', 'Mark'].map(value), ['-0.0', '"kept"', '"\\u0000double 1.5"']);
    assert.doesNotMatch(stored, /"Mark@odata.type"/);
    return value;
  };
  const after = await save('Name', 'changed');
  assert.equal(JSON.parse(after('Lines')), 'one\r\ntwo\n');
  const edited = await save('Lines', 'one!\ntwo\n');
  assert.equal(JSON.parse(edited('Lines')), 'one!\r\ntwo\n');
  assert.equal(JSON.parse(edited('Name')), 'changed');

  // The cursor stays where it is.
  const lines = '[aria-label="Value of Lines"]';
  await page.focus(lines);
  await page.evaluate(() => document.activeElement.setSelectionRange(0, 0));
  await page.keyboard.type('ab');
  assert.equal(await page.inputValue(lines), 'abone!\ntwo\n');
  await page.fill('[aria-label="Value of Far"]', '1e999');
  await page.waitForSelector('text=not of type Double');
  assert.ok(await page.isDisabled('button:text-is("Save")'));
});

test('a value that does not fit its type cannot be saved', async (t) => {
  const page = await tab(t, entity('contoso', 'order_000002'));
  await page.fill('[aria-label="Value of Cents"]', '2147483648');
  await page.waitForSelector('text=not of type Int32');
  assert.ok(await page.isDisabled('button:text-is("Save")'));
  assert.deepEqual(await violations(page), []);
});

test('a change of an entity that another program changed is a conflict', async (t) => {
  const page = await tab(t, entity('contoso', 'order_000003'), { expected: /412/ });
  const change = (customer) => requests.table("orders(PartitionKey='contoso',RowKey='order_000003')", 'MERGE', { Customer: customer }, { 'if-match': '*' });
  const value = () => page.inputValue('[aria-label="Value of Customer"]');
  await page.fill('[aria-label="Value of Customer"]', 'mine');
  await change('theirs');
  await page.click('text=Save');
  await page.waitForSelector('text=Conflict');
  assert.deepEqual(await violations(page), []);
  await page.click('text=Reload, discard mine');
  await page.waitForSelector('text=Conflict', { state: 'detached' });
  assert.equal(await value(), 'theirs');

  await page.fill('[aria-label="Value of Customer"]', 'mine again');
  await change('theirs again');
  await page.click('text=Save');
  await page.click('text=Keep mine');
  await page.waitForSelector('text=Conflict', { state: 'detached' });
  await page.click('text=Save');
  await page.waitForSelector('button:text-is("Save"):disabled');
  assert.equal(await value(), 'mine again');
});

test('an entity is inserted, and deleted after it is confirmed', async (t) => {
  const page = await tab(t, at('tables', 'customers'));
  await page.click('text=Insert entity');
  await page.fill('[aria-label=PartitionKey]', 'fabrikam');
  await page.fill('[aria-label=RowKey]', 'ada');
  await page.click('text=Add property');
  await page.fill('[aria-label=Name]', 'Since');
  await page.selectOption('td select', 'DateTime');
  await page.fill('[aria-label="Value of Since"]', '2026-01-31T12:00:00Z');
  await page.click('main button:text-is("Insert")');
  await page.waitForSelector('h1 >> text=fabrikam / ada');
  await page.waitForSelector('text=Timestamp');

  await page.click('main button:text-is("Delete")');
  await page.click('dialog >> text=Cancel');
  await page.click('main button:text-is("Delete")');
  await page.click('dialog >> text=Yes');
  await page.waitForSelector('h1:has-text("tables / customers")');
  const left = await (await requests.table("customers()?$filter=PartitionKey%20eq%20'fabrikam'", 'GET')).json();
  assert.deepEqual(left.value, []);
});

test('an entity is linked with its copies, claims and op rows', async (t) => {
  const page = await tab(t, entity('contoso', 'order_000900'));
  await page.waitForSelector('li:has-text("op row") >> a');
  await page.click('text=Search the whole table');
  await page.waitForSelector('li:has-text("copy by_courier")');
  await page.waitForSelector('li:has-text("claim")');
  await page.click('li:has-text("copy by_customer") >> a');
  await page.waitForSelector('h1 >> text=contoso / customer_ada_order_000900');
  await page.click('li:has-text("its entity") >> a');
  await page.waitForSelector('h1 >> text=contoso / order_000900');
  await page.click('li:has-text("op row") >> a');
  await page.waitForSelector('li:has-text("to settle for by_courier"):has-text("guessed")');
});

test('queues show hidden and poisoned messages; messages are put and cleared', async (t) => {
  const page = await tab(t, at('queues'));
  const row = await page.locator('tr:has-text("mails-poison") td').allTextContents();
  assert.deepEqual(row.slice(1, 4), ['1', '0', '1']);
  await page.click('a:text-is("mails")');
  await page.waitForSelector('i:has-text(\'{"order":901}\')');
  await page.fill('input[name=text]', 'a < b & "c"');
  await page.click('text=Put');
  await page.waitForSelector('code:text-is(\'a < b & "c"\')');
  await requests.queue('cleared', 'PUT');
  await page.goto(at('queues', 'cleared'));
  await page.fill('input[name=text]', 'gone soon');
  await page.check('input[name=base64]');
  await page.click('text=Put');
  await page.waitForSelector('i:has-text("gone soon")');
  await page.click('main button:text-is("Clear")');
  await page.click('dialog >> text=Yes');
  await page.waitForSelector('text=No messages.');
});

test('blobs show their leases, and the beginning of texts', async (t) => {
  const page = await tab(t, at('blobs', 'photos'));
  await page.waitForSelector('tr:has-text("readme.txt"):has-text("leased"):has-text("infinite"):has-text("by=ada")');
  await page.click('a:text-is("2026/01/a b.jpg")');
  await page.waitForSelector('text=Not a text.');
});

test('the journal is live, and says why a request is refused', async (t) => {
  const page = await tab(t, at('journal'));
  await page.waitForSelector('text=Requests:');
  await fetch(signed(server, 'table', 'customers()?$top=1'));
  await page.waitForSelector('tr:has-text("QueryEntities"):has-text("customers"):has-text("200")');
  await page.fill('input[name=words]', 'unsigned 401');
  await fetch(`${server.table}/unsigned()`);
  await page.waitForSelector('tbody tr:has-text("NoAuthenticationInformation")');
  await page.fill('input[name=words]', 'signedwrong');
  const wrong = signed(server, 'table', 'signedwrong()').replace(/sig=[^&]+/, 'sig=AAAA');
  await fetch(wrong);
  await page.waitForSelector('tbody tr:has-text("AuthenticationFailed")');
  await page.click('summary');
  await page.waitForSelector(`details[open] pre:has-text("${ACCOUNT}")`);
  assert.deepEqual(await violations(page), []);
});

test('a fault that the page adds hits a request', async (t) => {
  const page = await tab(t, at('controls'));
  await page.fill('input[name=operation]', 'InsertEntity');
  await page.fill('input[name=resource]', 'customers');
  await page.fill('input[name=times]', '1');
  await page.selectOption('select[name=action]', 'reject');
  await page.click('text=Add fault');
  await page.waitForSelector('td:has-text("reject ServerBusy")');
  const insert = () => fetch(signed(server, 'table', 'customers'), {
    method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json;odata=nometadata' }, body: '{"PartitionKey":"fault","RowKey":"1"}',
  });
  assert.equal((await insert()).status, 503);
  assert.equal((await insert()).status, 201);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('r');
  await page.waitForSelector('tr:has-text("reject ServerBusy") >> td:nth-child(4):text-is("1")');
  await page.click('tr:has-text("reject ServerBusy") >> text=Remove');
  await page.waitForSelector('text=No faults.');
  await page.keyboard.press('4');
  await page.waitForSelector('tr:has-text("InsertEntity"):has-text("503"):has-text("fault")');
});

test('clock, throttle, page cuts, secondary and snapshots are set and shown', async (t) => {
  const page = await tab(t, at('controls'));
  const section = (title) => page.locator(`section:has(h2:text-is("${title}"))`);
  await section('Clock').locator('text=Freeze').click();
  await section('Clock').locator('text=frozen').waitFor();
  const earlier = await section('Clock').locator('output').textContent();
  await section('Clock').locator('input').fill('3600');
  await section('Clock').locator('text=Advance').click();
  await page.waitForFunction((shown) => document.querySelector('output').textContent !== shown, earlier);
  const passed = new Date(`${(await section('Clock').locator('output').textContent()).slice(0, 23)}Z`) - new Date(`${earlier.slice(0, 23)}Z`);
  assert.equal(passed, 3_600_000);
  await section('Clock').locator('text=Follow').click();
  await section('Clock').locator('text=running').waitFor();
  for (const title of ['Throttle', 'Pages']) {
    await section(title).locator('button:text-is("Set")').click();
    await section(title).locator('button:text-is("Off")').click();
    await section(title).locator('b:text-is("off")').waitFor();
  }
  await section('Secondary').locator('text=Hold back now').click();
  await section('Secondary').locator('text=Let it follow').click();
  await section('Secondary').locator('text=follows the primary').waitFor();

  await section('Snapshots').locator('text=Take a snapshot').click();
  await section('Snapshots').locator('text=Restore').waitFor();
  await requests.table('customers', 'POST', { PartitionKey: 'later', RowKey: '1' });
  await section('Snapshots').locator('text=Restore').click();
  await page.click('dialog >> text=Yes');
  await page.waitForSelector('dialog', { state: 'detached' });
  await page.waitForFunction(async (path) => (await (await fetch(path, { headers: { accept: 'application/json;odata=nometadata' } })).json()).value.length === 0,
    `/v1/data/table/${ACCOUNT}/customers()?$filter=PartitionKey%20eq%20'later'`);
  await section('Snapshots').locator('text=Remove').click();
  await page.waitForSelector('text=No snapshots.');
});

test('the state is exported, reset after it is confirmed, and imported', async (t) => {
  const other = await startServer();
  t.after(() => other.stop());
  const there = client(other.control);
  await there.table('Tables', 'POST', { TableName: 'kept' });
  const page = await tab(t, `${other.control}/#/controls/${ACCOUNT}`);
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('text=Export')]);
  const file = await download.path();
  await page.click('text=Reset');
  await page.click('dialog >> text=Yes');
  await page.keyboard.press('1');
  await page.goto(`${other.control}/#/tables/${ACCOUNT}`);
  await page.waitForSelector('text=No tables.');
  await page.goto(`${other.control}/#/controls/${ACCOUNT}`);
  await page.setInputFiles('input[type=file]', file);
  await page.click('dialog >> text=Yes');
  await page.waitForSelector('dialog', { state: 'detached' });
  await page.goto(`${other.control}/#/tables/${ACCOUNT}`);
  await page.waitForSelector('text=kept');
});

test('a token is asked for, kept for the tab, and sent', async (t) => {
  const other = await startServer('--control-token', 'correct-horse');
  t.after(() => other.stop());
  const page = await open(browser);
  t.after(() => page.close());
  await page.goto(other.control);
  await page.fill('dialog input', 'correct-horse');
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=No tables.');
  await page.reload();
  await page.waitForSelector('text=No tables.');
  await page.keyboard.press('4');
  await page.waitForSelector('text=Requests: 0');
});

test('requests that need the token at once wait for one question', async (t) => {
  const other = await startServer('--control-token', 'correct-horse');
  t.after(() => other.stop());
  const page = await open(browser);
  t.after(() => page.close());
  await page.goto(`${other.control}/#/controls/${ACCOUNT}`);
  await page.fill('dialog input', 'wrong');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('dialog input')?.value === '');
  await page.fill('dialog input', 'correct-horse');
  await page.keyboard.press('Enter');
  for (const shown of ['No faults.', 'Freeze', 'Hold back now', 'Take a snapshot', 'Fork']) await page.waitForSelector(`text=${shown}`);
  await page.waitForSelector(`select[name=account] >> text=${ACCOUNT}`, { state: 'attached' });
  assert.equal(await page.locator('dialog, .problem').count(), 0);
});

test('an address that names no view shows the tables', async (t) => {
  for (const address of ['%', '%/%', '__proto__', 'constructor', 'toString/x', 'hasOwnProperty', 'tables/%E0%A4%A']) {
    const page = await tab(t, `${server.control}/#/${address}`);
    await page.waitForSelector('text=customers');
    assert.equal(await page.textContent('h1'), 'Tables', address);
    assert.equal(await page.textContent('nav [aria-current=page]'), 'tables 1', address);
  }
});

test('names and accounts in addresses do not lead to other resources', async (t) => {
  const [insert, clear] = ['main button:text-is("Insert")', 'main button:text-is("Clear")'];
  for (const [address, button, within] of [
    [`tables/${ACCOUNT}/..%2F..%2F..%2Fsnapshots?pk=&rk=&isNew=1`, insert, /^\/v1\/data\/table\/[^/]+\/\.\.%2F[^/]+$/],
    [`tables/${ACCOUNT}/..?pk=&rk=&isNew=1`, insert],
    [`tables/..%2F..%2Fsnapshots%23/x?pk=&rk=&isNew=1`, insert, /^\/v1\/data\/table\/\.\.%2F[^/]+\/x$/],
    [`tables/../x?pk=&rk=&isNew=1`, insert],
    [`tables/${ACCOUNT}/..%2F..%2F..%2Fjournal%23`, undefined, /^\/v1\/data\/table\/[^/]+\/\.\.%2F[^/]+\(\)$/],
    [`tables/${ACCOUNT}/..%2F..%2F..%2Fjournal%23?pk=&rk=`, undefined, /^\/v1\/data\/table\/[^/]+\/\.\.%2F[^/]+\(PartitionKey='',RowKey=''\)$/],
    [`queues/${ACCOUNT}/..%2F..%2Fjournal%23`, clear, /^\/v1\/(data\/queue|queues)\/[^/]+\/\.\.%2F[^/]+(\/messages)?$/],
    [`queues/${ACCOUNT}/..%2F..%2F..%2Fjournal%23`, clear, /^\/v1\/(data\/queue|queues)\/[^/]+\/\.\.%2F[^/]+(\/messages)?$/],
    [`queues/${ACCOUNT}/..`, clear],
    [`queues/..%2F..%2Fjournal%23/x`, clear, /^\/v1\/(data\/queue|queues)\/\.\.%2F[^/]+\/x(\/messages)?$/],
    [`blobs/${ACCOUNT}/..%2F..%2F..%2Fserver%23`, undefined, /^\/v1\/data\/blob\/[^/]+\/\.\.%2F[^/]+$/],
    [`blobs/${ACCOUNT}/..`, undefined],
  ]) {
    const page = await tab(t, undefined, { expected: /40\d|50\d/ });
    const paths = [];
    page.on('request', (request) => paths.push(new URL(request.url()).pathname));
    await page.goto(`${server.control}/#/${address}`);
    if (button) await page.click(button);
    if (button === clear) await page.click('dialog >> text=Yes');
    await page.waitForSelector('main .problem');
    const other = paths.filter((path) => path.startsWith('/v1/') && path !== '/v1/server' && !within?.test(path));
    assert.deepEqual(other, [], address);
    if (!within) assert.match(await page.textContent('main .problem'), /Not addressable/, address);
  }
  assert.deepEqual((await (await requests.send('/v1/snapshots')).json()).snapshots, []);
});

test('blobs whose names browsers would resolve are shown as not addressable', async (t) => {
  await requests.blob('photos/up%2F..%2Freadme.txt', 'PUT', 'another', { 'x-ms-blob-type': 'BlockBlob' });
  t.after(() => requests.blob('photos/up%2F..%2Freadme.txt', 'DELETE'));
  const page = await tab(t, at('blobs', 'photos'));
  await page.click('a:text-is("up/../readme.txt")');
  await page.waitForSelector('main .problem:has-text("Not addressable")');
});

test('100,000 rows are paged, with few rows in the document', async (t) => {
  await requests.table('Tables', 'POST', { TableName: 'many' });
  const rows = Array.from({ length: 100_000 }, (_, index) => ({ PartitionKey: 'p', RowKey: String(index).padStart(6, '0'), Value: index }));
  await requests.insertAll('many', rows);
  const page = await tab(t, at('tables', 'many', { top: 1000 }));
  let seen = 0;
  for (let number = 1; number <= 100; number++) {
    const status = await page.waitForSelector(`text=/^Page ${number}: [\\d,]+ entities/`);
    seen += Number((await status.textContent()).match(/: ([\d,]+)/)[1].replace(',', ''));
    await page.waitForSelector(`td:text-is("${String((number - 1) * 1000).padStart(6, '0')}")`);
    const elements = await page.locator('tbody tr').count();
    assert.ok(elements <= 100, `${elements} rows are elements`);
    if (number < 100) await page.evaluate(() => document.querySelector('#next').click());
  }
  await page.waitForSelector('text=the last page');
  assert.equal(seen, 100_000);

  await page.evaluate(() => { document.querySelector('.grid').scrollTop = 1e6; });
  await page.waitForSelector('td:text-is("099999")');
  assert.ok((await page.locator('tbody tr').count()) <= 100);
  await page.goto(at('tables'));
  await page.waitForSelector('tr:has-text("many") >> text="100,000"');
  await requests.table("Tables('many')", 'DELETE');
});

test('pictures for the book', { skip: !process.env.ROWKEY_PICTURES }, async (t) => {
  const shots = { table: 'light', entity: 'light', journal: 'dark', controls: 'dark' };
  await requests.post('/v1/faults', { operation: 'InsertEntity', resource: 'orders', nth: 2, action: { reject: 'ServerBusy' } });
  await fetch(signed(server, 'table', 'orders()?$top=1'));
  const insert = (rk) => fetch(signed(server, 'table', 'orders'), { method: 'POST', headers: { 'content-type': 'application/json' }, body: `{"PartitionKey":"fabrikam","RowKey":"order_${rk}"}` });
  for (const rk of ['000001', '000002', '000003', '000001']) await insert(rk);
  await fetch(signed(server, 'queue', 'mails/messages'));
  await fetch(signed(server, 'blob', 'photos/missing.jpg'));
  await fetch(signed(server, 'table', 'orders()?$top=1').replace(/sig=[^&]+/, 'sig=AAAA'));
  await fetch(signed(server, 'table', 'orders()?$filter=Name%20eq'));
  for (const [name, scheme] of Object.entries(shots)) {
    const page = await tab(t, VIEWS[name][0](), { scheme });
    await page.waitForSelector(VIEWS[name][1]);
    if (name === 'journal') await page.locator('summary').first().click();
    await page.screenshot({ path: `${process.env.ROWKEY_PICTURES}/page-${name}.png` });
  }
});
