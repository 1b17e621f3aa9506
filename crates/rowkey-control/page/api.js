// Requests: to the control plane, and through it to the services of an account. All go to the origin of the page.
import { parseJson, toJson, toRow } from './types.js';
import { ask } from './ui.js';

/** The account that the address of the page names. */
export const here = { account: '' };

const token = () => sessionStorage.getItem('token');
let asked;
// Requests that wait for the token wait for one question.
const askToken = async () => {
  const given = await ask({ text: 'The control plane needs its token.', label: 'Token', action: 'Go on' });
  if (given) sessionStorage.setItem('token', given);
  asked = undefined;
};

// Asks for the token if the control plane needs one, and keeps it until the tab is closed.
/** Sends a request. A response that is not a success is an error with its `status`, `code` and message. */
export async function send(path, options = {}) {
  // Browsers resolve these parts of a path, also encoded ones, so the request would go elsewhere.
  if (/\/\.\.?(?![^/?])/.test(path)) throw new Error('Not addressable: a part of the name is . or ..');
  const known = token();
  const headers = known ? { ...options.headers, authorization: `Bearer ${known}` } : options.headers;
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  if (response.status === 401) {
    if (token() === known) await (asked ??= askToken());
    if (token() !== known) return send(path, options);
  }
  const text = await response.text();
  let code = response.headers.get('x-ms-error-code') ?? response.statusText;
  let message = /<Message>([^<\n]*)/.exec(text)?.[1];
  if (text[0] === '{') {
    const { 'odata.error': odata, title, detail } = JSON.parse(text);
    [code, message] = odata ? [odata.code, odata.message.value.split('\n')[0]] : [title, detail];
  }
  throw Object.assign(new Error(message ?? code), { status: response.status, code: `${response.status} ${code}` });
}

/** Sends a request to the control plane, with a JSON body if there is one, and reads the JSON of the response. */
export async function control(method, path, body) {
  const json = body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const text = await (await send(`/v1/${path}`, { method, ...json })).text();
  return text ? JSON.parse(text) : undefined;
}

/** A name as a part of a path. */
export const part = encodeURIComponent;
/** Sends a request to a service. */
export const service = (name, path, { headers, ...options } = {}) =>
  send(`/v1/data/${name}/${part(here.account)}/${path}`, { ...options, headers: { 'x-ms-version': '2021-12-02', ...headers } });

const ODATA = { accept: 'application/json;odata=minimalmetadata', 'content-type': 'application/json', dataserviceversion: '3.0' };
const odata = (path, method, body, headers) => service('table', path, { method, body, headers: { ...ODATA, ...headers } });
const rowPath = (table, keys) => {
  const [pk, rk] = keys.map((key) => part(key.replaceAll("'", "''")));
  return `${part(table)}(PartitionKey='${pk}',RowKey='${rk}')`;
};

export async function tables() {
  const names = [];
  let next = '';
  do {
    const response = await odata(`Tables?NextTableName=${part(next)}`);
    names.push(...(await response.json()).value.map((one) => one.TableName));
    next = response.headers.get('x-ms-continuation-NextTableName');
  } while (next);
  return names;
}
export const createTable = (name) => odata('Tables', 'POST', JSON.stringify({ TableName: name }));
export const deleteTable = (name) => odata(`Tables('${part(name)}')`, 'DELETE');

/** One page of a query; `next` is the continuation token of the following one, or undefined. */
export async function query(table, { filter, select, top, next }) {
  const options = Object.entries({ $filter: filter, $select: select, $top: top, ...next }).filter(([, value]) => value);
  const response = await odata(`${part(table)}()?${options.map(([name, value]) => `${name}=${part(value)}`).join('&')}`);
  const [pk, rk] = ['Partition', 'Row'].map((key) => response.headers.get(`x-ms-continuation-Next${key}Key`));
  const rows = parseJson(await response.text()).value.map(toRow);
  return { rows, next: pk === null ? undefined : { NextPartitionKey: pk, NextRowKey: rk } };
}

export async function queryAll(table, filter) {
  const rows = [];
  let page = {};
  do {
    page = await query(table, { filter, next: page.next });
    rows.push(...page.rows);
  } while (page.next);
  return rows;
}

export const getEntity = async (table, keys) => toRow(parseJson(await (await odata(rowPath(table, keys))).text()));
/** Writes an entity: inserts it without an ETag, and replaces it under one. */
export const putEntity = (table, keys, values, etag) => etag
  ? odata(rowPath(table, keys), 'PUT', toJson(values), { 'if-match': etag })
  : odata(part(table), 'POST', toJson(values));
export const deleteEntity = (table, keys, etag) => odata(rowPath(table, keys), 'DELETE', undefined, { 'if-match': etag });

/** All elements of a list of the Queue or Blob service. */
export async function elements(name, path, element) {
  const found = [];
  let marker = '';
  do {
    const text = await (await service(name, `${path}&marker=${part(marker)}`)).text();
    const xml = new DOMParser().parseFromString(text, 'text/xml');
    found.push(...xml.getElementsByTagName(element));
    marker = xml.querySelector('NextMarker')?.textContent;
  } while (marker);
  return found;
}
/** The text in an element, and the metadata of a listed one. */
export const textOf = (element, name) => element.getElementsByTagName(name)[0]?.textContent ?? '';
export const metadataOf = (element) => [...(element.querySelector('Metadata')?.children ?? [])].map((one) => `${one.tagName}=${one.textContent}`).join(', ');
