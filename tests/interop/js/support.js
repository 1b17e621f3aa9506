// What every test starts from: clients of the account that ROWKEY_CONNECTION_STRING names, a table of
// its own, and one way to read an error's code. The tests demand what the service does.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after } from "node:test";
import { AzureNamedKeyCredential, TableClient, TableServiceClient } from "@azure/data-tables";

export const connectionString = process.env.ROWKEY_CONNECTION_STRING;
assert.ok(connectionString, "ROWKEY_CONNECTION_STRING is not set; use tests/interop/run js");

const parts = Object.fromEntries(
  connectionString
    .split(";")
    .filter(Boolean)
    .map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
);
export const accountName = parts.AccountName;
export const credential = new AzureNamedKeyCredential(accountName, parts.AccountKey);
export const endpoint = (parts.TableEndpoint ?? `https://${accountName}.table.core.windows.net`).replace(/\/$/, "");

// The service is spoken to without TLS on loopback, which the SDK wants to be told.
export const insecure = { allowInsecureConnection: endpoint.startsWith("http:") };
export const service = TableServiceClient.fromConnectionString(connectionString, insecure);

const made = new Set();
after(async () => {
  for (const name of made) await service.deleteTable(name);
});

// A name no other test has: a deleted table blocks its name for a while.
export const freshName = () => `t${randomUUID().replaceAll("-", "").slice(0, 20)}`;

export function clientOf(name) {
  return TableClient.fromConnectionString(connectionString, name, insecure);
}

/** A table that the test creates, deleted when the file's tests are over. */
export function tableToCreate() {
  const client = clientOf(freshName());
  made.add(client.tableName);
  return client;
}

/** A new table, deleted when the file's tests are over. */
export async function newTable() {
  const client = tableToCreate();
  await client.createTable();
  return client;
}

export const entity = (rowKey = "r", properties = {}, partitionKey = "p") => ({ partitionKey, rowKey, ...properties });

export async function all(iterable) {
  const collected = [];
  for await (const one of iterable) collected.push(one);
  return collected;
}

/** An entity's own properties, without keys and what the service adds. */
export function own({ partitionKey, rowKey, etag, timestamp, ...properties }) {
  return Object.fromEntries(Object.entries(properties).filter(([name]) => !name.startsWith("odata.")));
}

export function codeOf(error) {
  return error.details?.odataError?.code ?? error.code ?? error.response?.headers.get("x-ms-error-code");
}

/** Asserts that a call is refused with this status and this code of the service. */
export async function refused(statusCode, code, promise) {
  const error = await promise.then(
    () => assert.fail(`expected ${statusCode} ${code}, but the call succeeded`),
    (error) => error,
  );
  if (error instanceof assert.AssertionError) throw error;
  assert.deepEqual([error.statusCode, codeOf(error)], [statusCode, code], String(error.message));
  return error;
}
