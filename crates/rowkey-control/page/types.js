// Types of properties: how entities are read from OData JSON and written to it without loss.
//
// A row is `{ etag, values: Map(name -> { type, text }) }`. The text is exact: no Int64 and no time of 100 ns is rounded.

export const KEYS = ['PartitionKey', 'RowKey', 'Timestamp'];

const LEXEME = /"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*/g;

/** Reads JSON. Each text and number becomes a text that is its JSON: 5.0 is a Double and 5 an Int32, and nothing is rounded. */
export const parseJson = (text) => JSON.parse(text.replace(LEXEME, (one) => (one.endsWith(':') ? one : JSON.stringify(one))));

const textOf = (json) => (json?.[0] === '"' ? JSON.parse(json) : json);

/** Reads an entity from what `parseJson` returned. */
export function toRow(json) {
  const values = new Map();
  for (const [name, value] of Object.entries(json)) {
    if (name.includes('odata.') || value === null) continue;
    const annotated = name === 'Timestamp' ? 'Edm.DateTime' : textOf(json[`${name}@odata.type`]);
    const plain = value[0] === '"' ? 'String' : /^-?\d+$/.test(value) ? 'Int32' : value.at ? 'Double' : 'Boolean';
    values.set(name, { type: annotated?.slice(4) ?? plain, text: String(textOf(value)) });
  }
  return { etag: textOf(json['odata.etag']), values };
}

/** The form of the text of each type. */
const FORMS = {
  String: /^/,
  Int32: /^(0|-?[1-9]\d{0,9})$/,
  Int64: /^-?\d{1,19}$/,
  Double: /^(-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?|NaN|-?Infinity)$/,
  Boolean: /^(true|false)$/,
  DateTime: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?Z$/,
  Guid: /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i,
  Binary: /^([\w+/]{4})*([\w+/]{2}==|[\w+/]{3}=)?$/,
};
export const TYPES = Object.keys(FORMS);

/** What is wrong with the text of a value; undefined if nothing is. */
export function invalid({ type, text }) {
  const fits = FORMS[type].test(text) && (type !== 'Int32' || (text | 0) === Number(text)) && (type !== 'Double' || isFinite(text) === /\d/.test(text));
  return fits ? undefined : `not of type ${type}`;
}

/** Writes an entity as OData JSON with the type of each property. Numbers are written as their texts are. */
export function toJson(values) {
  const members = [];
  const add = (name, json) => members.push(`${JSON.stringify(name)}:${json}`);
  for (const [name, { type, text }] of values) {
    if (!KEYS.includes(name)) add(`${name}@odata.type`, `"Edm.${type}"`);
    add(name, ['Int32', 'Boolean'].includes(type) || (type === 'Double' && /\d/.test(text)) ? text : JSON.stringify(text));
  }
  return `{${members}}`;
}

/** A text as it was typed, with the line ends that it had before: those of a text area are `\n` alone. */
export function withEnds(before, typed) {
  const ends = before.match(/\r\n?|\n/g) ?? [];
  const plain = before.replace(/\r\n?/g, '\n');
  const linesOf = (text) => text.split('\n').length - 1;
  let same = 0;
  while (same < typed.length && typed[same] === plain[same]) same++;
  const first = linesOf(typed.slice(0, same));
  const more = linesOf(typed) - ends.length;
  let at = 0;
  return typed.replace(/\n/g, (end) => {
    const from = at < first ? at : Math.max(at - more, first);
    at++;
    return ends[from] ?? ends[0] ?? end;
  });
}

/** The columns of rows: keys, properties in order of appearance, Timestamp; each with the types that occur. */
export function columnsOf(rows) {
  const columns = new Map();
  for (const [name, { type }] of rows.flatMap(({ values }) => [...values])) {
    columns.set(name, (columns.get(name) ?? new Set()).add(type));
  }
  const all = [...columns].map(([name, types]) => ({ name, types: [...types] }));
  return all.sort((one, other) => (one.name === 'Timestamp') - (other.name === 'Timestamp'));
}
