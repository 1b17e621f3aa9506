// The modules of the page that need no browser: the cost of filters, the types of properties, the rows of stores.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { COSTS, costOf } from '../../crates/rowkey-control/page/cost.js';
import { keysOf, kindOf, namedBy, opOf, searches } from '../../crates/rowkey-control/page/rows.js';
import { columnsOf, invalid, parseJson, toJson, toRow, withEnds } from '../../crates/rowkey-control/page/types.js';

const PAGE = new URL('../../crates/rowkey-control/page/', import.meta.url);
const CLIENT = readFileSync(new URL('../../crates/rowkey-client/src/table/cost.rs', import.meta.url), 'utf8');

/** The names that the client shows, by those of its type. */
const NAMES = Object.fromEntries([...CLIENT.matchAll(/Self::(\w+) => "([^"]+)"/g)].map(([, name, shown]) => [name, shown]));

test('costs have the names of the client', () => {
  assert.deepEqual(Object.keys(COSTS), Object.values(NAMES));
});

test('filters have the costs that the client gives them', () => {
  const cases = [...CLIENT.matchAll(/\(\s*"([^"]+)",\s*Cost::(\w+),?\s*\)/g)];
  assert.ok(cases.length >= 12, 'the table of the test in cost.rs is read');
  for (const [, filter, cost] of cases) assert.equal(costOf(filter), NAMES[cost], filter);
});

test('costs of filters with all kinds of values', () => {
  for (const [filter, cost] of [
    ['', 'table scan'],
    ["'a' eq PartitionKey and 'x' lt RowKey", 'range query'],
    ["PartitionKey eq 'it''s (a) and' and RowKey eq 'or'", 'point query'],
    ["PartitionKey eq 'a' and Weight lt -1.5e-3 and Serial eq 5L and Open", 'partition scan'],
    ["PartitionKey eq 'a' and Placed ge datetime'2026-01-01T00:00:00Z' and not Open", 'partition scan'],
    ["(PartitionKey eq 'a') and (RowKey ge 'b')", 'range query'],
    ["not not (PartitionKey eq 'a' and RowKey eq 'b')", 'table scan'],
    ["PartitionKey eq 'a' and RowKey eq 'b' or Open eq true", 'table scan'],
    ['PartitionKey eq 5', 'table scan'],
  ]) assert.equal(costOf(filter), cost, filter);
});

test('what is not a filter is said', () => {
  for (const [filter, message] of [
    ["Name eq 'x", 'a property or a value is missing'],
    ['Age eq', 'a property or a value is missing'],
    ['(Age eq 1', 'a closing parenthesis is missing'],
    ['Age eq 1 Name', 'unexpected Name'],
    ['5', 'an operator is missing: eq, ne, gt, ge, lt or le'],
    [')', 'a property or a value is missing'],
    ['Age toString 5', 'unexpected toString'],
  ]) assert.throws(() => costOf(filter), { message }, filter);
});

const BODY = `{"odata.etag":"W/\\"1\\"","PartitionKey":"a","RowKey":"b","Timestamp":"2026-01-01T00:00:00.1234567Z",
  "D":5.0,"E":-1.5e-7,"N":"NaN","N@odata.type":"Edm.Double","I":7,"L":"9007199254740993","L@odata.type":"Edm.Int64",
  "B":"AQI=","B@odata.type":"Edm.Binary","T":"0001-01-01T00:00:00Z","T@odata.type":"Edm.DateTime","F":false,
  "S":"says \\"5.0\\", 1.5 and \\\\","G":"c9da6455-213d-42c9-9a79-3e9149a57833","G@odata.type":"Edm.Guid","Z":null}`;

test('entities are read with their types and written without loss', () => {
  const row = toRow(parseJson(BODY));
  const types = Object.fromEntries([...row.values].map(([name, { type }]) => [name, type]));
  assert.deepEqual(types, {
    PartitionKey: 'String', RowKey: 'String', Timestamp: 'DateTime', D: 'Double', E: 'Double', N: 'Double', I: 'Int32', L: 'Int64',
    B: 'Binary', T: 'DateTime', F: 'Boolean', S: 'String', G: 'Guid',
  });
  assert.equal(row.values.get('L').text, '9007199254740993');
  assert.equal(row.values.get('S').text, 'says "5.0", 1.5 and \\');
  assert.equal(row.etag, 'W/"1"');

  const again = JSON.parse(toJson(row.values));
  assert.equal(again['D@odata.type'], 'Edm.Double');
  assert.deepEqual([again.D, again.E, again.N, again.I, again.L, again.F], [5, -1.5e-7, 'NaN', 7, '9007199254740993', false]);
});

test('unchanged values are written as they came', () => {
  const values = {
    Zero: '-0.0', Tiny: '4.9e-324', Huge: '1.7976931348623157E+308', Long: '0.30000000000000004', Whole: '5.0', Int: '-7', Yes: 'true', __proto__x: '1', constructor: '2',
    Mark: '"\\u0000double 1.5"', Quoted: '"\\"5.0\\""', Colon: '"a:"', Lines: '"one\\r\\ntwo\\rthree\\n"', Half: '"\\ud800"', Empty: '""',
  };
  const body = `{"__proto__" : -0.0,${Object.entries(values).map(([name, json]) => `"${name}":${json}`)},"toString@odata.type":"Edm.Int64","toString":"9007199254740993"}`;
  const row = toRow(parseJson(body));
  const written = toJson(row.values);
  assert.match(written, /^\{"__proto__@odata.type":"Edm.Double","__proto__":-0.0,/);
  for (const [name, json] of Object.entries(values)) assert.ok(written.includes(`"${name}":${json}`), `${name} in ${written}`);
  assert.match(written, /"Mark@odata.type":"Edm.String"/);
  assert.match(written, /"toString@odata.type":"Edm.Int64","toString":"9007199254740993"\}$/);
  assert.deepEqual(toRow(parseJson(written)), row);
});

test('texts keep the ends of their lines when they are typed in', () => {
  for (const [before, typed, after] of [
    ['a\r\nb', 'a\nbc', 'a\r\nbc'],
    ['a\r\nb\r\n', 'a\nx\ny\nb\n', 'a\r\nx\r\ny\r\nb\r\n'],
    ['a\r\nb\rc\nd', 'a\nb!\nc\nd', 'a\r\nb!\rc\nd'],
    ['a\r\nb\rc\nd', 'a\nd', 'a\r\nd'],
    ['a\r\nb\nc', 'a\nnew\nb\nc', 'a\r\nnew\nb\nc'],
    ['a\r\nb\nc', 'b\nc', 'b\nc'],
    ['a', 'a\nb', 'a\nb'],
    ['a\r\nb', 'c\nd\ne', 'c\r\nd\r\ne'],
    ['a\r\n', '', ''],
  ]) assert.equal(withEnds(before, typed), after, JSON.stringify([before, typed]));
});

test('values that do not fit their type are invalid', () => {
  const fits = (type, text) => invalid({ type, text }) === undefined;
  const cases = [
    ['Int32', '-2147483648', true], ['Int32', '2147483648', false], ['Int32', '1.5', false], ['Int32', '', false], ['Int32', '01', false], ['Int32', '0', true],
    ['Int64', '9007199254740993', true], ['Int64', '1e3', false], ['Double', '1e3', true], ['Double', '-Infinity', true],
    ['Double', '1e999', false], ['Double', '-1e999', false], ['Double', '01.5', false], ['Double', '-0.0', true], ['Double', 'NaN', true], ['Double', '1e308', true],
    ['Double', '.5', false], ['Boolean', 'yes', false], ['DateTime', '2026-01-31T12:00:00.1234567Z', true],
    ['DateTime', '2026-01-31', false], ['Guid', 'c9da6455-213d-42c9-9a79-3e9149a57833', true], ['Guid', 'c9da', false],
    ['Binary', 'AQI=', true], ['Binary', 'AQI', false], ['Binary', '', true], ['String', '', true],
  ];
  for (const [type, text, expected] of cases) assert.equal(fits(type, text), expected, `${type} ${text}`);
});

/** A row of texts. */
const row = (keys, properties = {}) => ({
  values: new Map(Object.entries({ PartitionKey: keys[0], RowKey: keys[1], ...properties }).map(([name, text]) => [name, { type: 'String', text }])),
});

test('columns have the types that occur, and the Timestamp is last', () => {
  const mixed = toRow(parseJson('{"PartitionKey":"a","RowKey":"c","Timestamp":"2026-01-01T00:00:00Z","D":"text","New":1}'));
  const columns = columnsOf([toRow(parseJson(BODY)), mixed]);
  assert.deepEqual(columns.slice(0, 3).map(({ name }) => name), ['PartitionKey', 'RowKey', 'D']);
  assert.deepEqual(columns.find(({ name }) => name === 'D').types, ['Double', 'String']);
  assert.deepEqual(columns.slice(-2).map(({ name }) => name), ['New', 'Timestamp']);
});

const MARK = '00000000000000ff';
const HEAD = row(['contoso', 'order_7'], { EntityOp: MARK });
const OP = row(['contoso', `op_0638992368000000000_${MARK}`], {
  RowFormat: '1', Created: '2026-01-01T00:00:00Z',
  Targets: '[{"rowKey":"order_7","of":"order_","declaration":"by_courier","address":"courier_kim\\ncont',
  Targets2: 'oso_7"}]',
  Claims: '[{"keys":["unique_order_by_number_A","claim"],"rowKey":"order_7","of":"order_","name":"by_number"}]',
});

test('rows of stores are recognized by their properties', () => {
  for (const [kind, one] of [
    ['', row(['p', 'r'], { Name: 'x' })],
    ['head', HEAD],
    ['copy', row(['p', 'r'], { PrimaryRowKey: 'x', IndexName: 'i', EntityOp: MARK })],
    ['claim', row(['p', 'claim'], { RowFormat: '1', OwnerPartition: 'p', OwnerRow: 'r', OpRow: 'op_1' })],
    ['list', row(['p', 'list_id_by_name_King'], { RowFormat: '1', IndexName: 'by_name', Count: '1', Keys: '7' })],
    ['further row', row(['p', 'wide_r_01'], { RowFormat: '1', PrimaryRowKey: 'r', EntityOp: MARK })],
    ['view', row(['p', 'from_x'], { RowFormat: '1', View: 'v', PrimaryPartitionKey: 'q', PrimaryRowKey: 'r' })],
    ['op row', OP],
    ['void', row(['p', 'op_1'], { RowFormat: '1', Created: 'x', Void: 'true' })],
    ['', row(['p', 'op_1'], { Name: 'an entity whose key begins so' })],
  ]) assert.equal(kindOf(one), kind);
});

test('rows name the rows that they belong to, and guesses are marked', () => {
  const keys = (one) => namedBy(one).map((named) => [...named.keys, Boolean(named.guess)]);
  assert.deepEqual(keys(HEAD), []);
  assert.deepEqual(keys(row(['p', 'x_r'], { PrimaryRowKey: 'r', IndexName: 'i' })), [['p', 'r', false]]);
  assert.deepEqual(keys(row(['q', 'x'], { PrimaryPartitionKey: 'p', PrimaryRowKey: 'r', IndexName: 'i' })), [['p', 'r', true]]);
  const claim = row(['u', 'claim'], { RowFormat: '1', OwnerPartition: 'p', OwnerRow: 'r', OpRow: 'op_1' });
  assert.deepEqual(keys(claim), [['p', 'r', false], ['p', 'op_1', false]]);
  const list = (text) => row(['sales', 'list_id_by_name_King'], { RowFormat: '1', IndexName: 'by_name', Count: '2', Keys: text });
  assert.deepEqual(keys(list('000152/000223')), [['sales', 'id_000152', true], ['sales', 'id_000223', true]]);
  assert.deepEqual(keys(list('research#000152')), [['research', 'id_000152', true]]);
  assert.deepEqual(keys(OP), [['contoso', 'order_7', false], ['courier_kim', 'contoso_7', true], ['unique_order_by_number_A', 'claim', false]]);
  assert.deepEqual(keys(row(['p', 'op_1'], { RowFormat: '1', Created: 'x', Targets: '[damaged' })), []);
});

test('an op row belongs to the entity that it wrote', () => {
  assert.deepEqual(opOf(OP, HEAD), {});
  assert.match(opOf(OP, row(['contoso', 'order_7'], { EntityOp: 'another' })).guess, /another write/);
  assert.equal(opOf(OP, row(['contoso', 'order_8'])), undefined);
  assert.deepEqual(keysOf(OP), ['contoso', `op_0638992368000000000_${MARK}`]);
});

test('the filters for rows that belong to an entity quote its keys, and have the costs that the page names', () => {
  const { near, ops, far } = searches(row(["it's", 'r']));
  assert.match(near, /'it''s'/);
  assert.deepEqual([near, ops, far].map(costOf), ['partition scan', 'range query', 'table scan']);
});

test('modules begin with what they are for, and have no comments that the program would keep', () => {
  for (const name of readdirSync(PAGE).filter((file) => file.endsWith('.js'))) {
    const text = readFileSync(new URL(name, PAGE), 'utf8');
    assert.match(text, /^\/\/ [A-Z]/, name);
    // The program leaves out whole lines that are comments, and joins lines that end with `,`, `;` or an opening bracket.
    assert.doesNotMatch(text, /^(?!\s*\/\/).*[,;{([] \/\/ /m, `${name}: a comment ends a line of code`);
    assert.doesNotMatch(text, /^\s*\/\*(?!.*\*\/$)/m, `${name}: a comment of several lines is not /* */`);
  }
});
