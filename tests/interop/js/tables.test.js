// Tables: create, delete, list, filter, and the names that are refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { odata } from "@azure/data-tables";
import { all, clientOf, entity, freshName, newTable, refused, service } from "./support.js";

const names = (tables) => tables.map((table) => table.name);

test("a created table is listed with its casing", async () => {
  const name = `Camel${freshName()}`;
  await service.createTable(name);
  assert.ok(names(await all(service.listTables())).includes(name));
  await service.deleteTable(name);
  assert.ok(!names(await all(service.listTables())).includes(name));
});

test("creating an existing table is not an error to the sdk", async () => {
  const table = await newTable();
  await table.createTable();
  await service.createTable(table.tableName);
});

test("deleting a missing table is not an error to the sdk", async () => {
  await service.deleteTable(freshName());
});

test("the name of a deleted table is blocked for a while", async () => {
  const name = freshName();
  await service.createTable(name);
  await service.deleteTable(name);
  await refused(409, "TableBeingDeleted", service.createTable(name));
});

test("tables are found by filter and come in pages that resume", async () => {
  const head = freshName();
  const made = ["a", "b", "c", "d", "e"].map((suffix) => head + suffix);
  for (const name of made) await service.createTable(name);
  const one = service.listTables({ queryOptions: { filter: odata`TableName eq ${made[1]}` } });
  assert.deepEqual(names(await all(one)), [made[1]]);

  const queryOptions = { filter: odata`TableName ge ${head} and TableName lt ${head + "z"}` };
  const first = (await service.listTables({ queryOptions }).byPage({ maxPageSize: 2 }).next()).value;
  assert.deepEqual(names(first), made.slice(0, 2));
  const rest = await all(
    service.listTables({ queryOptions }).byPage({ maxPageSize: 2, continuationToken: first.continuationToken }),
  );
  assert.deepEqual(rest.map(names), [made.slice(2, 4), made.slice(4)]);
  for (const name of made) await service.deleteTable(name);
});

test("a name with forbidden characters is refused", async () => {
  for (const name of ["with-dash", "1leading", "under_score"]) {
    const error = await refused(400, "InvalidResourceName", service.createTable(name));
    assert.match(error.message, /resource name contains invalid characters/);
  }
});

test("a name of the wrong length is refused", async () => {
  for (const name of ["ab", "a".repeat(64)]) await refused(400, "OutOfRangeInput", service.createTable(name));
});

test("a missing table is told from a missing entity", async () => {
  const missing = clientOf(freshName());
  await refused(404, "TableNotFound", missing.createEntity(entity()));
  await refused(404, "TableNotFound", missing.getEntity("p", "r"));
  await refused(404, "TableNotFound", all(missing.listEntities()));
  await refused(404, "ResourceNotFound", (await newTable()).getEntity("p", "r"));
});
