// Rows of rowkey's stores: what a row is, and which rows belong to it, read from its properties alone.
//
// A store writes an entity (its head) with copies for indexes, claims of unique values, further rows of wide entities,
// lists, contributions to views, and op rows of writes that are not settled. Declarations are not in the table, so
// some links are guesses: these have a `guess` that says why.

const text = (row, name) => row.values.get(name)?.text;
export const keysOf = (row) => [text(row, 'PartitionKey') ?? '', text(row, 'RowKey') ?? ''];

/** What a row is; an empty text for a plain entity. */
export function kindOf(row) {
  const has = (...names) => names.every((name) => row.values.has(name));
  if (has('RowFormat', 'Created') && keysOf(row)[1].startsWith('op_')) return has('Void') ? 'void' : 'op row';
  if (has('RowFormat', 'OwnerRow')) return 'claim';
  if (has('RowFormat', 'IndexName', 'Count')) return 'list';
  if (has('View')) return 'view';
  if (has('IndexName', 'PrimaryRowKey')) return 'copy';
  if (has('RowFormat', 'PrimaryRowKey')) return 'further row';
  return has('EntityOp') ? 'head' : '';
}

/** Text that a store split over `Name`, `Name2`, `Name3` .. */
function whole(row, name) {
  let all = '';
  for (let at = 1, part; (part = text(row, at > 1 ? name + at : name)) !== undefined; at++) all += part;
  return all;
}

function parsed(row, name) {
  try {
    return JSON.parse(whole(row, name));
  } catch {
    return [];
  }
}

const HERE = 'in this table; the row does not name another one';

/** The rows that a row names: `{ what, keys, guess? }`. */
export function namedBy(row) {
  const [partition, key] = keysOf(row);
  const kind = kindOf(row);
  const index = text(row, 'IndexName');
  const primary = text(row, 'PrimaryRowKey');
  if (primary !== undefined) {
    const elsewhere = text(row, 'PrimaryPartitionKey');
    return [{ what: 'its entity', keys: [elsewhere ?? partition, primary], guess: elsewhere && HERE }];
  }
  if (kind === 'claim') {
    const of = (what, name) => ({ what, keys: [text(row, 'OwnerPartition'), text(row, name) ?? ''] });
    return [of('owner of the value', 'OwnerRow'), of('op row, until it is settled', 'OpRow')];
  }
  if (kind === 'list') {
    // The RowKey is `list_`, the beginning of the RowKeys of the type, and the name of the list.
    const head = key.slice(5, key.indexOf(index));
    return whole(row, 'Keys').split('/').filter(Boolean).map((one) => {
      const [rest, of = partition] = one.split('#').reverse();
      return { what: 'listed entity', keys: [of, head + rest], guess: 'from the RowKey of the list' };
    });
  }
  if (kind !== 'op row') return [];
  const rows = [];
  for (const { rowKey, declaration, address } of parsed(row, 'Targets')) {
    rows.push({ what: 'entity written', keys: [partition, rowKey] });
    if (address.includes('\n')) rows.push({ what: `to settle for ${declaration}`, keys: address.split('\n'), guess: HERE });
  }
  for (const { rowKey, name, keys } of parsed(row, 'Claims')) {
    rows.push({ what: 'entity written', keys: [partition, rowKey] }, { what: `claim of ${name}`, keys });
  }
  return rows.filter(({ keys }, at) => rows.findIndex((one) => String(one.keys) === String(keys)) === at);
}

/** The filters that find what belongs to an entity: in its partition, op rows, and in the whole table. */
export function searches(row) {
  const [partition, key] = keysOf(row).map((value) => `'${value.replaceAll("'", "''")}'`);
  return {
    near: `PartitionKey eq ${partition} and PrimaryRowKey eq ${key}`,
    ops: `PartitionKey eq ${partition} and RowKey ge 'op_' and RowKey lt 'op\`'`,
    far: `(PrimaryPartitionKey eq ${partition} and PrimaryRowKey eq ${key}) or (OwnerPartition eq ${partition} and OwnerRow eq ${key})`,
  };
}

/** Whether an op row is of a write of an entity: `{ guess? }`, or undefined if it is not. */
export function opOf(op, row) {
  const [, key] = keysOf(row);
  if (keysOf(op)[1].endsWith(`_${text(row, 'EntityOp')}`)) return {};
  const names = [...parsed(op, 'Targets'), ...parsed(op, 'Claims')].some(({ rowKey }) => rowKey === key);
  return names ? { guess: 'another write that names it' } : undefined;
}
