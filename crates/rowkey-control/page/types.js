// Types of properties: how entities are read from OData JSON and written to it without loss.
//
// A row is `{ etag, values: Map(name -> { type, text }) }`. The text is exact: no Int64 and no time of 100 ns is rounded.

export const KEYS = ['PartitionKey', 'RowKey', 'Timestamp'];

const DOUBLE = '\0double ';
const LEXEME = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;

/** Reads JSON. 5.0 is a Double and 5 an Int32, so a Double becomes text that begins with a mark. */
export const parseJson = (text) => JSON.parse(text.replace(LEXEME, (one) => (/^"|^-?\d+$/.test(one) ? one : JSON.stringify(DOUBLE + one))));

/** Reads an entity from what `parseJson` returned. */
export function toRow(json) {
  const values = new Map();
  for (const [name, value] of Object.entries(json)) {
    if (name.includes('odata.') || value === null) continue;
    const annotated = name === 'Timestamp' ? 'Edm.DateTime' : json[`${name}@odata.type`];
    const text = String(value);
    const isMarked = text.startsWith(DOUBLE);
    const plain = { boolean: 'Boolean', number: 'Int32', string: isMarked ? 'Double' : 'String' }[typeof value];
    values.set(name, { type: annotated?.slice(4) ?? plain, text: isMarked ? text.slice(DOUBLE.length) : text });
  }
  return { etag: json['odata.etag'], values };
}

/** The form of the text of each type. */
const FORMS = {
  String: /^/,
  Int32: /^-?\d{1,10}$/,
  Int64: /^-?\d{1,19}$/,
  Double: /^(-?\d+(\.\d+)?([eE][-+]?\d+)?|NaN|-?Infinity)$/,
  Boolean: /^(true|false)$/,
  DateTime: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?Z$/,
  Guid: /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i,
  Binary: /^([\w+/]{4})*([\w+/]{2}==|[\w+/]{3}=)?$/,
};
export const TYPES = Object.keys(FORMS);

/** What is wrong with the text of a value; undefined if nothing is. */
export function invalid({ type, text }) {
  const fits = FORMS[type].test(text) && (type !== 'Int32' || (text | 0) === Number(text));
  return fits ? undefined : `not of type ${type}`;
}

/** Writes an entity as OData JSON with the type of each property. */
export function toJson(values) {
  const members = {};
  for (const [name, { type, text }] of values) {
    if (!KEYS.includes(name)) members[`${name}@odata.type`] = `Edm.${type}`;
    members[name] = ['Int32', 'Boolean'].includes(type) || (type === 'Double' && /\d/.test(text)) ? JSON.parse(text) : text;
  }
  return JSON.stringify(members);
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
