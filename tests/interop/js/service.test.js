// The service's properties, stored access policies, and shared access signatures.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  TableClient,
  TableServiceClient,
  generateAccountSas,
  generateTableSas,
} from "@azure/data-tables";
import { accountName, all, clientOf, credential, endpoint, entity, freshName, insecure, newTable, refused, service } from "./support.js";

const hour = 3_600_000;
const inAnHour = () => new Date(Date.now() + hour);
const off = { enabled: false };

after(() =>
  service.setProperties({
    logging: { version: "1.0", read: false, write: false, delete: false, retentionPolicy: off },
    hourMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
    minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
    cors: [],
  }),
);

test("service properties are set in part and read whole", async () => {
  const retentionPolicy = { enabled: true, days: 5 };
  const rule = {
    allowedOrigins: "www.xyz.com",
    allowedMethods: "GET,PUT",
    allowedHeaders: "x-ms-meta-data*",
    exposedHeaders: "x-ms-meta-source*",
    maxAgeInSeconds: 500,
  };
  await service.setProperties({
    logging: { version: "1.0", read: true, write: false, delete: true, retentionPolicy },
    cors: [rule],
  });
  await service.setProperties({ hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy } });
  const { logging, hourMetrics, cors } = await service.getProperties();
  assert.deepEqual(logging, { version: "1.0", read: true, write: false, delete: true, retentionPolicy });
  assert.deepEqual(hourMetrics, { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy });
  assert.deepEqual(cors, [rule]);
  await refused(400, "InvalidXmlDocument", service.setProperties({ cors: Array(6).fill(rule) }));
});

test("access policies are set and read", async () => {
  const table = await newTable();
  assert.deepEqual([...(await table.getAccessPolicy())], []);
  const start = new Date("2024-01-01T12:00:00Z");
  const expiry = new Date("2034-01-01T12:00:00Z");
  await table.setAccessPolicy([
    { id: "full", accessPolicy: { start, expiry, permission: "raud" } },
    { id: "read", accessPolicy: { permission: "r" } },
  ]);
  assert.deepEqual(
    [...(await table.getAccessPolicy())],
    [
      { id: "full", accessPolicy: { start, expiry, permission: "raud" } },
      { id: "read", accessPolicy: { permission: "r" } },
    ],
  );
  const six = Array.from({ length: 6 }, (_, n) => ({ id: `id${n}`, accessPolicy: { permission: "r" } }));
  await refused(400, "InvalidXmlDocument", table.setAccessPolicy(six));
  await table.setAccessPolicy([]);
  assert.deepEqual([...(await table.getAccessPolicy())], []);
  await refused(404, "TableNotFound", clientOf(freshName()).getAccessPolicy());
});

function holding(table, values) {
  const token = generateTableSas(table.tableName, credential, values);
  return new TableClient(endpoint, table.tableName, new AzureSASCredential(token), insecure);
}

test("a table sas opens exactly what it says", async () => {
  const table = await newTable();
  await table.createEntity(entity("r", { a: 1 }));
  const reader = holding(table, { permissions: { query: true }, expiresOn: inAnHour() });
  assert.equal((await reader.getEntity("p", "r")).a, 1);
  assert.equal((await all(reader.listEntities())).length, 1);
  await refused(403, "AuthorizationPermissionMismatch", reader.createEntity(entity("new")));
  await refused(403, "AuthorizationPermissionMismatch", reader.deleteEntity("p", "r"));
  const adder = holding(table, { permissions: { add: true }, expiresOn: inAnHour() });
  await adder.createEntity(entity("added"));
  await adder.submitTransaction([["create", entity("also")]]);
  await refused(403, "AuthorizationPermissionMismatch", adder.upsertEntity(entity("added")));
  await refused(403, "AuthorizationPermissionMismatch", adder.getEntity("p", "r"));
  const upserter = holding(table, { permissions: { add: true, update: true }, expiresOn: inAnHour() });
  await upserter.upsertEntity(entity("upserted"));
});

test("a table sas in the url of a client works for transactions too", async () => {
  const table = await newTable();
  const token = generateTableSas(table.tableName, credential, { permissions: { add: true }, expiresOn: inAnHour() });
  const client = new TableClient(`${endpoint}?${token}`, table.tableName, insecure);
  await client.submitTransaction([
    ["create", entity("a")],
    ["create", entity("b")],
  ]);
  assert.equal((await all(table.listEntities())).length, 2);
});

test("a table sas is bound to its time and its address", async () => {
  const table = await newTable();
  const permissions = { query: true };
  const expired = holding(table, { permissions, expiresOn: new Date(Date.now() - hour) });
  await refused(403, "AuthenticationFailed", all(expired.listEntities()));
  const early = holding(table, { permissions, startsOn: inAnHour(), expiresOn: new Date(Date.now() + 2 * hour) });
  await refused(403, "AuthenticationFailed", all(early.listEntities()));
  const elsewhere = holding(table, { permissions, expiresOn: inAnHour(), ipRange: { start: "203.0.113.9" } });
  await refused(403, "AuthorizationSourceIPMismatch", all(elsewhere.listEntities()));
});

test("a table sas is bound to its key range", async () => {
  const table = await newTable();
  for (const partition of ["a", "b", "c"]) await table.createEntity(entity("r", { n: 0 }, partition));
  const ranged = holding(table, {
    permissions: { query: true, add: true, update: true, delete: true },
    expiresOn: inAnHour(),
    startPartitionKey: "b",
    startRowKey: "r",
    endPartitionKey: "b",
    endRowKey: "s",
  });
  assert.deepEqual((await all(ranged.listEntities())).map((one) => one.partitionKey), ["b"]);
  await ranged.updateEntity(entity("r", { n: 1 }, "b"));
  await refused(403, "AuthorizationFailure", ranged.updateEntity(entity("r", { n: 1 }, "a")));
  await refused(403, "AuthorizationFailure", ranged.createEntity(entity("t", {}, "b")));
  await refused(403, "AuthorizationFailure", ranged.deleteEntity("c", "r"));
  await assert.rejects(ranged.getEntity("a", "r"), { statusCode: 404 });
});

test("a stored policy grants, and its removal revokes", async () => {
  const table = await newTable();
  await table.setAccessPolicy([{ id: "reader", accessPolicy: { expiry: inAnHour(), permission: "r" } }]);
  const client = holding(table, { identifier: "reader" });
  assert.deepEqual(await all(client.listEntities()), []);
  await refused(403, "AuthorizationPermissionMismatch", client.createEntity(entity()));
  await table.setAccessPolicy([]);
  await refused(403, "AuthenticationFailed", all(client.listEntities()));
});

test("an account sas is bound to its resource types and permissions", async () => {
  const table = await newTable();
  const holder = (resourceTypes, permissions) => {
    const token = generateAccountSas(credential, { expiresOn: inAnHour(), resourceTypes, permissions, services: { table: true } });
    return {
      tables: new TableServiceClient(endpoint, new AzureSASCredential(token), insecure),
      entities: new TableClient(endpoint, table.tableName, new AzureSASCredential(token), insecure),
    };
  };
  const everything = { query: true, write: true, delete: true, list: true, add: true, update: true };
  const full = holder("sco", everything);
  const name = freshName();
  await full.tables.createTable(name);
  assert.ok((await all(full.tables.listTables())).some((one) => one.name === name));
  await full.entities.createEntity(entity());
  await full.tables.deleteTable(name);
  const objects = holder("o", everything);
  assert.equal((await all(objects.entities.listEntities())).length, 1);
  await refused(403, "AuthorizationResourceTypeMismatch", all(objects.tables.listTables()));
  const reader = holder("sco", { query: true, list: true });
  await refused(403, "AuthorizationPermissionMismatch", reader.entities.createEntity(entity("new")));
});

test("a wrong key is refused", async () => {
  const wrong = new TableServiceClient(endpoint, new AzureNamedKeyCredential(accountName, "d3Jvbmc="), insecure);
  await refused(403, "AuthenticationFailed", all(wrong.listTables()));
});
