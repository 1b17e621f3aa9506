// Flags of the program that the package must know of.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "rowkey-server";

/** @typedef {import("rowkey-server").Server} Server */

/**
 * Runs a test with a server that has these flags.
 *
 * @param {string[]} flags
 * @param {(server: Server) => Promise<void>} body
 */
async function using(flags, body) {
  const server = await startServer({ flags });
  try {
    await body(server);
  } finally {
    await server.close();
  }
}

/**
 * The status of a request without a token.
 *
 * @param {Server} server
 */
async function anonymous(server) {
  return (await fetch(`${server.controlEndpoint}/v1/clock`)).status;
}

for (const flags of [["--control-token", "secret"], ["--control-token=other", "--control-token=secret"]]) {
  test(`a server with a token is controlled: ${flags.join(" ")}`, async () => {
    await using(flags, async (server) => {
      await server.clock.now();
      const fork = await server.fork();
      await fork.clock.now();
      await fork.close();
      await server.restart();
      await server.clock.now();
      assert.equal(await anonymous(server), 401);
    });
  });
}

test("the token of the environment is that of the server", async () => {
  const before = process.env.ROWKEY_CONTROL_TOKEN;
  try {
    process.env.ROWKEY_CONTROL_TOKEN = "secret";
    await using([], async (server) => {
      await server.clock.now();
      assert.equal(await anonymous(server), 401);
    });
    process.env.ROWKEY_CONTROL_TOKEN = "";
    await using([], async (server) => {
      await server.clock.now();
      assert.equal(await anonymous(server), 200);
    });
  } finally {
    if (before === undefined) delete process.env.ROWKEY_CONTROL_TOKEN;
    else process.env.ROWKEY_CONTROL_TOKEN = before;
  }
});

test("servers that issue tokens run side by side", async () => {
  const flags = ["--oauth", "issue"];
  await using(flags, async (one) => {
    await using(flags, async (other) => {
      const fork = await one.fork();
      const authorities = [one.authority, other.authority, fork.authority];
      assert.ok(!authorities.includes(null));
      assert.equal(new Set(authorities).size, 3);
      await fork.close();
      await one.restart();
      assert.equal(one.authority, authorities[0]);
      assert.equal((await one.control("GET", "/v1/identities")).authority, one.authority);
    });
  });
  await using([], async (server) => {
    const fork = await server.fork();
    assert.deepEqual([server.authority, fork.authority], [null, null]);
  });
});

test("connection strings have the keys of accounts", async () => {
  await using(["--accounts", "shop:a2V5"], async (server) => {
    for (const { connectionString } of [server, await server.fork()]) {
      assert.match(connectionString, /AccountName=shop;AccountKey=a2V5;/);
    }
  });
});
