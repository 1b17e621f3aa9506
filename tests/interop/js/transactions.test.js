// Transactions: every operation, all or nothing, and which operation failed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TableTransaction } from "@azure/data-tables";
import { all, clientOf, entity, freshName, newTable, own, refused } from "./support.js";

const stored = async (table) => Object.fromEntries((await all(table.listEntities())).map((one) => [one.rowKey, own(one)]));

test("every kind of operation in one transaction", async () => {
  const table = await newTable();
  for (const row of ["1", "2", "3", "4", "5"]) await table.createEntity(entity(row, { a: 1, b: 1 }));
  const { etag } = await table.getEntity("p", "4");
  const transaction = new TableTransaction();
  transaction.createEntity(entity("new's", { a: "ü" }));
  transaction.upsertEntity(entity("1", { b: 2 }), "Merge");
  transaction.upsertEntity(entity("2", { b: 2 }), "Replace");
  transaction.updateEntity(entity("3", { b: 2 }), "Merge");
  transaction.updateEntity(entity("4", { b: 2 }), "Replace", { etag });
  transaction.deleteEntity("p", "5");
  const done = await table.submitTransaction(transaction.actions);
  assert.equal(done.status, 202);
  assert.deepEqual(
    done.subResponses.map((one) => one.status),
    [204, 204, 204, 204, 204, 204],
  );
  assert.equal(done.subResponses[0].etag.trim(), (await table.getEntity("p", "new's")).etag);
  assert.equal(done.subResponses[5].etag, undefined);
  assert.deepEqual(await stored(table), {
    1: { a: 1, b: 2 },
    2: { b: 2 },
    3: { a: 1, b: 2 },
    4: { b: 2 },
    "new's": { a: "ü" },
  });
});

test("an insert is found by its row key", async () => {
  const table = await newTable();
  const done = await table.submitTransaction([
    ["create", entity("one")],
    ["create", entity("two")],
  ]);
  assert.equal(done.getResponseForEntity("two").etag.trim(), (await table.getEntity("p", "two")).etag);
});

test("a failure names its operation and nothing is applied", async () => {
  const table = await newTable();
  await table.createEntity(entity("there", { a: 1 }));
  const error = await refused(
    409,
    "EntityAlreadyExists",
    table.submitTransaction([
      ["create", entity("before")],
      ["create", entity("there", { a: 2 })],
      ["upsert", entity("after")],
    ]),
  );
  assert.match(error.message, /^1:The specified entity already exists\./);
  assert.deepEqual(await stored(table), { there: { a: 1 } });
});

test("a stale etag, an absent entity and a repeated row each fail the transaction", async () => {
  const table = await newTable();
  const { etag } = await table.createEntity(entity("a", { n: 1 }));
  await table.updateEntity(entity("a", { n: 2 }));
  const stale = ["update", entity("a", { n: 3 }), "Replace", { etag }];
  await refused(412, "UpdateConditionNotSatisfied", table.submitTransaction([["create", entity("b")], stale]));
  const absent = ["delete", entity("absent")];
  await refused(404, "ResourceNotFound", table.submitTransaction([["create", entity("b")], absent]));
  const again = ["upsert", entity("b")];
  const error = await refused(400, "InvalidDuplicateRow", table.submitTransaction([["create", entity("b")], again]));
  assert.match(error.message, /^1:/);
  assert.deepEqual(await stored(table), { a: { n: 2 } });
});

test("a hundred operations are accepted and one more is not", async () => {
  const table = await newTable();
  const actions = (count) => Array.from({ length: count }, (_, n) => ["create", entity(String(n).padStart(3, "0"))]);
  const error = await refused(400, "InvalidInput", table.submitTransaction(actions(101)));
  assert.match(error.message, /^99:The batch request operation exceeds the maximum 100 changes per change set/);
  assert.deepEqual(await stored(table), {});
  assert.equal((await table.submitTransaction(actions(100))).subResponses.length, 100);
});

test("a transaction on a missing table says so", async () => {
  const missing = clientOf(freshName());
  await refused(404, "TableNotFound", missing.submitTransaction([["create", entity("a")], ["create", entity("b")]]));
});

test("a transaction over four mebibytes is refused as too large", async () => {
  const table = await newTable();
  const big = "x".repeat(27_000);
  const actions = Array.from({ length: 79 }, (_, n) => ["create", entity(String(n), { a: big, b: big })]);
  await assert.rejects(table.submitTransaction(actions), { statusCode: 413 });
  assert.deepEqual(await stored(table), {});
});
