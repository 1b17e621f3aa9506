// The migration page shows programs on @azure/data-tables: its program runs, and makes each call of its table.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as tables from "@azure/data-tables";
import { newTable } from "./support.js";

const page = readFileSync(new URL("../../../docs/src/migrate/others.md", import.meta.url), "utf8");
const section = page.split("\n## JavaScript\n")[1].split("\n## ")[0];
const blocks = [...section.matchAll(/^```js\n(.*?)^```$/gms)].map(([, block]) => block);

test("the program of the page runs", async () => {
  assert.equal(blocks.length, 1);
  // An import stands at the top of a module alone, and the program gets its table.
  const body = blocks[0].replace(/^import \{ (.*) \} from "@azure\/data-tables";$/m, "const { $1 } = tables;");
  const AsyncFunction = (async () => {}).constructor;
  const program = new AsyncFunction("tables", "table", `${body}\nreturn { failures, found, left };`);
  const { failures, found, left } = await program(tables, await newTable());
  assert.deepEqual(failures, [412, 404, 404]);
  assert.deepEqual(found, ["1"]);
  assert.deepEqual(left, [
    ["1", 5_000_000_000],
    ["3", 3],
  ]);
});

test("the program makes every call of the table", () => {
  const rows = section.split("\n").filter((row) => row.startsWith("| `"));
  assert.ok(rows.length >= 7);
  for (const row of rows) {
    const code = [...row.split("|")[1].matchAll(/`([^`]+)`/g)].map(([, code]) => code).join(" ");
    for (const [name] of code.matchAll(/[A-Za-z]{3,}/g)) {
      assert.match(blocks[0], new RegExp(`\\b${name}\\b`), `${name} of ${row} is not in the program`);
    }
  }
});
