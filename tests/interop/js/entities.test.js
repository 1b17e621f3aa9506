// Entities: all types there and back, every operation, the keys, the ETags, and the limits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { odata } from "@azure/data-tables";
import { all, entity, newTable, own, refused } from "./support.js";

test("every type there and back", async () => {
  const table = await newTable();
  const guid = { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" };
  const properties = {
    text: "Grüße, 世界 \u{1f600} it's \"quoted\"\n\\",
    empty: "",
    small: -7,
    large: 2n ** 53n + 1n,
    largest: -(2n ** 63n),
    real: 0.1,
    truth: true,
    when: new Date("2024-02-29T12:30:15.123Z"),
    guid,
    binary: new Uint8Array([0, 1, 254, 255]),
    größe: 1,
  };
  await table.createEntity(entity("r", properties));
  const stored = await table.getEntity("p", "r");
  const { binary, ...rest } = own(stored);
  const { binary: sent, ...expected } = properties;
  assert.deepEqual(rest, expected);
  assert.deepEqual(new Uint8Array(binary), sent);
  assert.deepEqual([stored.partitionKey, stored.rowKey], ["p", "r"]);
  assert.match(stored.etag, /^W\/"datetime'/);
  assert.ok(!Number.isNaN(Date.parse(stored.timestamp)));

  const [listed] = await all(table.listEntities());
  assert.deepEqual(own(listed), own(stored));
  assert.equal(listed.etag, stored.etag);
});

test("explicit types keep what a number or a date would lose", async () => {
  const table = await newTable();
  const properties = {
    whole: { type: "Double", value: "3.0" },
    infinite: { type: "Double", value: "-Infinity" },
    nan: { type: "Double", value: "NaN" },
    large: { type: "Int64", value: "9223372036854775807" },
    when: { type: "DateTime", value: "2024-02-29T12:30:15.1234567Z" },
    binary: { type: "Binary", value: "AP8=" },
  };
  await table.createEntity(entity("r", properties));
  const stored = own(await table.getEntity("p", "r", { disableTypeConversion: true }));
  const { whole, ...rest } = stored;
  const { whole: _, ...expected } = properties;
  assert.deepEqual(rest, expected);
  assert.equal(Number(whole.value), 3);
});

test("a whole double stays one on the wire", async () => {
  const table = await newTable();
  await table.createEntity(entity("r", { whole: { type: "Double", value: "3.0" } }));
  let body;
  await table.getEntity("p", "r", { onResponse: (response) => (body = response.bodyAsText) });
  assert.match(body, /"whole":3\.0[,}]/);
});

test("null and undefined are not stored, and a merge of null keeps what is", async () => {
  const table = await newTable();
  await table.createEntity(entity("r", { a: 1, b: null, c: undefined }));
  assert.deepEqual(own(await table.getEntity("p", "r")), { a: 1 });
  await table.updateEntity(entity("r", { a: null, d: 2 }), "Merge");
  assert.deepEqual(own(await table.getEntity("p", "r")), { a: 1, d: 2 });
});

test("merge, replace and upsert", async () => {
  const table = await newTable();
  await table.createEntity(entity("r", { a: 1, b: 1 }));
  await table.updateEntity(entity("r", { b: 2 }), "Merge");
  assert.deepEqual(own(await table.getEntity("p", "r")), { a: 1, b: 2 });
  await table.updateEntity(entity("r", { c: 3 }), "Replace");
  assert.deepEqual(own(await table.getEntity("p", "r")), { c: 3 });
  await table.upsertEntity(entity("r", { d: 4 }), "Merge");
  assert.deepEqual(own(await table.getEntity("p", "r")), { c: 3, d: 4 });
  await table.upsertEntity(entity("r", { e: 5 }), "Replace");
  assert.deepEqual(own(await table.getEntity("p", "r")), { e: 5 });
  await table.upsertEntity(entity("new", { f: 6 }), "Replace");
  assert.deepEqual(own(await table.getEntity("p", "new")), { f: 6 });
  await table.deleteEntity("p", "r");
  await refused(404, "ResourceNotFound", table.getEntity("p", "r"));
  await refused(404, "ResourceNotFound", table.deleteEntity("p", "r"));
  await refused(404, "ResourceNotFound", table.updateEntity(entity("r", { a: 1 }), "Merge"));
});

test("an insert of an existing entity is refused", async () => {
  const table = await newTable();
  await table.createEntity(entity("r", { a: 1 }));
  await refused(409, "EntityAlreadyExists", table.createEntity(entity("r", { a: 2 })));
});

test("a stale etag is refused and the current one is taken", async () => {
  const table = await newTable();
  const { etag: stale } = await table.createEntity(entity("r", { a: 1 }));
  const { etag: fresh } = await table.updateEntity(entity("r", { a: 2 }), "Merge", { etag: stale });
  assert.notEqual(fresh, stale);
  for (const mode of ["Merge", "Replace"]) {
    const write = table.updateEntity(entity("r", { a: 3 }), mode, { etag: stale });
    await refused(412, "UpdateConditionNotSatisfied", write);
  }
  await refused(412, "UpdateConditionNotSatisfied", table.deleteEntity("p", "r", { etag: stale }));
  assert.equal((await table.getEntity("p", "r")).a, 2);
  await table.deleteEntity("p", "r", { etag: fresh });
});

test("an etag that is none is invalid input", async () => {
  const table = await newTable();
  await table.createEntity(entity("r", { a: 1 }));
  const error = await refused(400, "InvalidInput", table.deleteEntity("p", "r", { etag: "nonsense" }));
  assert.match(error.message, /The etag value 'nonsense' specified in one of the request headers is not valid/);
});

const KEYS = ["", " ", "it's", "100%", "%25", "a+b", "a&b=c", "a,b;c:d@e$f!g*h~i", "(a)[b]{c}<d>", '"quoted"'].concat(
  ["Grüße", "世界", "\u{1f600}", ".", "..", "k".repeat(512)],
);

for (const key of KEYS) {
  test(`a key works in every operation: ${JSON.stringify(key).slice(0, 30)}`, async () => {
    const table = await newTable();
    const at = (properties) => ({ partitionKey: key, rowKey: key, ...properties });
    await table.createEntity(at({ a: 1 }));
    const stored = await table.getEntity(key, key);
    assert.deepEqual([stored.partitionKey, stored.rowKey, stored.a], [key, key, 1]);
    await table.updateEntity(at({ b: 2 }), "Merge");
    await table.upsertEntity(at({ c: 3 }), "Merge");
    const found = await all(
      table.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${key} and RowKey eq ${key}` } }),
    );
    assert.deepEqual(found.map(own), [{ a: 1, b: 2, c: 3 }]);
    await table.submitTransaction([["update", at({ d: 4 }), "Replace"]]);
    assert.deepEqual(own(await table.getEntity(key, key)), { d: 4 });
    await table.deleteEntity(key, key);
    await refused(404, "ResourceNotFound", table.getEntity(key, key));
  });
}

test("limits of an entity", async () => {
  const table = await newTable();
  const properties = (count) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, n]));
  await table.createEntity(entity("most", properties(252)));
  await refused(400, "TooManyProperties", table.createEntity(entity("more", properties(253))));
  await refused(400, "PropertyNameTooLong", table.createEntity(entity("name", { ["a".repeat(256)]: 1 })));
  await refused(400, "PropertyValueTooLarge", table.createEntity(entity("value", { a: "x".repeat(32_769) })));
  const full = Array.from({ length: 16 }, (_, n) => [`p${n}`, new Uint8Array(65_536)]);
  await refused(400, "EntityTooLarge", table.createEntity(entity("large", Object.fromEntries(full))));
});
