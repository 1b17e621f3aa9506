// Queries: filters, select, pages and continuation.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { odata } from "@azure/data-tables";
import { all, clientOf, entity, newTable, own, refused } from "./support.js";

let table;
before(async () => {
  table = await newTable();
  for (const number of [1, 2, 3]) {
    await table.createEntity(
      entity(String(number), {
        text: `it's ${number}`,
        small: number,
        large: 2n ** 40n + BigInt(number),
        real: number + 0.5,
        truth: number === 2,
        when: new Date(Date.UTC(2024, 0, number, 12, 0, 0, 250)),
        guid: { type: "Guid", value: `00000000-0000-0000-0000-00000000000${number}` },
        binary: new Uint8Array([0, number]),
      }),
    );
  }
  await table.createEntity(entity("none"));
});

const rows = async (filter) => (await all(table.listEntities({ queryOptions: { filter } }))).map((one) => one.rowKey);

test("a value of each type is found", async () => {
  const filters = [
    odata`text eq ${"it's 2"}`,
    odata`small eq ${2}`,
    "large eq 1099511627778L",
    odata`real eq ${2.5}`,
    odata`truth eq ${true}`,
    odata`when eq ${new Date(Date.UTC(2024, 0, 2, 12, 0, 0, 250))}`,
    "guid eq guid'00000000-0000-0000-0000-000000000002'",
    "binary eq X'0002'",
    odata`PartitionKey eq ${"p"} and RowKey eq ${"2"}`,
  ];
  for (const filter of filters) assert.deepEqual(await rows(filter), ["2"], filter);
});

test("operators, precedence and what is missing", async () => {
  assert.deepEqual(await rows("small gt 1"), ["2", "3"]);
  assert.deepEqual(await rows("small ne 1"), ["2", "3"]);
  assert.deepEqual(await rows("small eq 1 or small eq 2 and real gt 100.0"), ["1"]);
  assert.deepEqual(await rows("(small eq 1 or small eq 2) and real gt 2.0"), ["2"]);
  assert.deepEqual(await rows("not (small eq 1) and small lt 3"), ["2"]);
  assert.deepEqual(await rows("absent ne 'x'"), []);
  assert.deepEqual(await rows("small eq '2'"), []);
});

test("an interpolated value is never filter text", async () => {
  assert.deepEqual(await rows(odata`RowKey eq ${"x' or RowKey ne 'y"}`), []);
});

test("select returns what it names, and null for what is missing", async () => {
  const found = await all(table.listEntities({ queryOptions: { select: ["rowKey", "small"] } }));
  assert.deepEqual(
    found.map(({ etag, ...rest }) => (assert.ok(etag), rest)),
    [
      { rowKey: "1", small: 1 },
      { rowKey: "2", small: 2 },
      { rowKey: "3", small: 3 },
      { rowKey: "none", small: null },
    ],
  );
  const one = await table.getEntity("p", "1", { queryOptions: { select: ["small", "absent"] } });
  assert.deepEqual(own(one), { small: 1, absent: null });
});

test("a filter that does not parse is invalid input", async () => {
  const error = await refused(400, "InvalidInput", rows("aaa bbb ccc"));
  assert.match(error.message, /Syntax error at position 7 in 'aaa bbb ccc'/);
});

test("a listing longer than a page is complete, and resumes from a kept token", async () => {
  const long = await newTable();
  for (let start = 0; start < 1100; start += 100) {
    await long.submitTransaction(
      Array.from({ length: 100 }, (_, n) => [
        "create",
        entity(String(start + n).padStart(4, "0"), { n: start + n }),
      ]),
    );
  }
  const numbers = (page) => page.map((one) => one.n);
  assert.deepEqual(
    numbers(await all(long.listEntities())),
    Array.from({ length: 1100 }, (_, n) => n),
  );
  const first = (await long.listEntities().byPage().next()).value;
  assert.equal(first.length, 1000);
  const token = String(first.continuationToken);
  const rest = await all(clientOf(long.tableName).listEntities().byPage({ continuationToken: token }));
  assert.deepEqual(numbers(rest.flat()), Array.from({ length: 100 }, (_, n) => 1000 + n));

  const pages = await all(
    long.listEntities({ queryOptions: { filter: "n ge 100 and n lt 205" } }).byPage({ maxPageSize: 50 }),
  );
  assert.equal(pages.flat().length, 105);
  assert.ok(pages.every((page) => page.length <= 50));
});
