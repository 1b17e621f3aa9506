// How the program starts and ends, and a control port that does not answer.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Fault, ServerError, StartError, startServer } from "rowkey-server";

const isPosix = process.platform !== "win32";

for (const printed of ["123", "null", "[]", "ready", '{"ready":true}', '{"control":"http://127.0.0.1:1"}', ""]) {
  test(`a program that prints something else is a StartError: ${printed}`, { skip: !isPosix }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "rowkey-another-"));
    try {
      const program = join(folder, "another");
      writeFileSync(program, `#!/bin/sh\necho 'its log' >&2\necho '${printed}'\nexec cat\n`, { mode: 0o755 });
      await assert.rejects(startServer({ program }), (error) => {
        assert.ok(error instanceof StartError, String(error));
        assert.match(error.message, /another did not print the line of a rowkey-server/);
        return true;
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

test("a file that is no program is a StartError", { skip: !isPosix }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowkey-another-"));
  try {
    const program = join(folder, "another");
    writeFileSync(program, "\0", { mode: 0o755 });
    await assert.rejects(startServer({ program }), StartError);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("restarts at once are one, and closing waits for them", async () => {
  const server = await startServer();
  const address = server.controlEndpoint;
  await Promise.all([server.restart(), server.restart()]);
  assert.equal(server.controlEndpoint, address);
  await server.clock.now();
  await Promise.all([server.restart(), server.close()]);
  await assert.rejects(server.clock.now(), /has it been closed/);
  await assert.rejects(server.restart(), /only a running program/);
});

test("delays are rounded up to milliseconds", async () => {
  const action = [0, 0.001, 1.5, 2_000].map((delay) => Fault.any().delay(delay).toJSON().action);
  assert.deepEqual(action, [{ delayMs: 0 }, { delayMs: 1 }, { delayMs: 2 }, { delayMs: 2_000 }]);
});

test("a control port that does not answer is an error", async () => {
  const path = createRequire(import.meta.url).resolve("rowkey-server").replace(/index\.js$/, "lib/control.js");
  const { Control } = createRequire(import.meta.url)(path);
  const silent = createServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (silent.address());
  const url = `http://127.0.0.1:${port}`;
  assert.equal(new Control(url).timeout, 30_000);
  await assert.rejects(new Control(url, undefined, 20).send("GET", "/v1/clock"), (error) => {
    assert.ok(error instanceof ServerError);
    assert.match(error.message, /GET .*\/v1\/clock: the server does not answer/);
    return true;
  });
  silent.close();
});
