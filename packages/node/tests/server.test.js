// The package against its program.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { test } from "node:test";
import {
  ControlError,
  Fault,
  ServerError,
  StartError,
  WaitTimeoutError,
  findProgram,
  startServer,
} from "rowkey-server";

const TABLES = "/v1/data/table/devstoreaccount1/Tables";
/** @type {typeof Symbol.asyncDispose} */
const asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

/** @typedef {import("rowkey-server").Server} Server */

/**
 * Runs a test with a server of its own.
 *
 * @param {string} name
 * @param {(server: Server) => Promise<void>} body
 */
function withServer(name, body) {
  test(name, async () => {
    const server = await startServer();
    try {
      await body(server);
    } finally {
      await server.close();
    }
  });
}

/**
 * Lists the tables without a signature, and returns the status of the answer.
 *
 * @param {Server} server
 */
async function tables(server) {
  return (await fetch(`${server.tableEndpoint}/Tables`)).status;
}

/** @param {Server} server */
async function tableNames(server) {
  const { value } = /** @type {{ value: { TableName: string }[] }} */ (await server.control("GET", TABLES));
  return value.map((table) => table.TableName);
}

test("the program is that of the package for this system", () => {
  const version = execFileSync(findProgram(), ["--version"], { encoding: "utf8" });
  assert.match(version, /^rowkey-server /);
  const bin = createRequire(import.meta.url).resolve("rowkey-server").replace(/index\.js$/, "bin.js");
  assert.equal(execFileSync(process.execPath, [bin, "--version"], { encoding: "utf8" }), version);
});

test("a closed server says so", async () => {
  const server = await startServer();
  assert.ok([401, 403].includes(await tables(server)));
  await server.close();
  await server.close();
  await assert.rejects(server.clock.now(), { name: "ServerError", message: /has it been closed/ });
  await assert.rejects(server.restart(), /only a running program/);
});

test("a program that does not start shows its log", async () => {
  await assert.rejects(startServer({ flags: ["--no-such-flag"] }), (error) => {
    assert.ok(error instanceof StartError && error instanceof ServerError);
    assert.match(error.message, /it logged:\n.*--no-such-flag/);
    return true;
  });
  await assert.rejects(startServer({ program: "/no/such/program" }), /cannot start/);
});

const isPosix = process.platform !== "win32";

test("the program ends with a killed parent", { skip: !isPosix }, async () => {
  const script = `
    const { startServer } = require("rowkey-server");
    startServer().then((server) => {
      require("node:fs").writeSync(1, server.controlEndpoint);
      process.kill(process.pid, "SIGKILL");
    });`;
  const parent = spawnSync(process.execPath, ["-e", script], { encoding: "utf8" });
  assert.equal(parent.signal, "SIGKILL", parent.stderr);
  const deadline = Date.now() + 30_000;
  await assert.rejects(async () => {
    for (;;) {
      await fetch(`${parent.stdout}/health`);
      assert.ok(Date.now() < deadline, "it still runs");
    }
  }, TypeError);
});

test("a process that forgets to close its server ends", () => {
  const script = 'require("rowkey-server").startServer().then(() => console.log("started"));';
  const parent = spawnSync(process.execPath, ["-e", script], { encoding: "utf8", timeout: 60_000 });
  assert.equal(parent.stdout.trim(), "started", parent.stderr);
  assert.equal(parent.status, 0);
});

withServer("a fault hits and is removed", async (server) => {
  const busy = await server.inject(Fault.on("QueryTables").nth(2).reject("ServerBusy"));
  const statuses = [await tables(server), await tables(server), await tables(server)];
  assert.deepEqual(
    statuses.map((status) => status === 503),
    [false, true, false],
  );
  await busy.waitUntilHit();
  await busy.remove();
  assert.equal(await busy.hits(), 1);
  assert.deepEqual((await server.control("GET", "/v1/faults")).faults, []);
  const [entry] = (await server.journal()).filter(({ status }) => status === 503);
  assert.equal(entry?.operation, "QueryTables");
  assert.equal(entry?.code, "ServerBusy");
  assert.equal(entry?.fault, busy.id);
});

withServer("a held request goes on when it is released", async (server) => {
  const held = await server.inject(Fault.any().hold());
  const answer = tables(server);
  await held.waitUntilHeld();
  assert.equal(await held.held(), 1);
  await held.release();
  assert.ok((await answer) > 0);
});

withServer("a discarded request gets no answer", async (server) => {
  const held = await server.inject(Fault.any().hold());
  const answer = assert.rejects(tables(server));
  await held.waitUntilHeld();
  await held.discard();
  await answer;
});

withServer("waiting has a timeout", async (server) => {
  const held = await server.inject(Fault.any().hold());
  await assert.rejects(held.waitUntilHit(1, { timeout: 50 }), WaitTimeoutError);
});

withServer("a fault that matched nothing is a warning unless its hits were read", async (server) => {
  const warned = once(process, "warning");
  await (await server.inject(Fault.on("InsertEntity").hold()))[asyncDispose]();
  const [warning] = await warned;
  assert.match(warning.message, /InsertEntity/);
  let others = 0;
  const count = () => (others += 1);
  process.on("warning", count);
  const read = await server.inject(Fault.on("InsertEntity").hold());
  assert.equal(await read.hits(), 0);
  await read[asyncDispose]();
  await new Promise(setImmediate);
  process.off("warning", count);
  assert.equal(others, 0);
});

withServer("a fault survives a reset as an object", async (server) => {
  const fault = await server.inject(Fault.service("table").times(1).truncate(10));
  await server.reset();
  assert.equal(await fault.hits(), 0);
  await fault.remove();
});

withServer("errors have the detail of the problem", async (server) => {
  await assert.rejects(server.control("GET", "/v1/faults/77"), (error) => {
    assert.ok(error instanceof ControlError);
    assert.equal(error.status, 404);
    assert.equal(error.title, "Not Found");
    assert.match(error.message, /77/);
    return true;
  });
});

withServer("the clock moves and stops", async (server) => {
  const before = await server.clock.freeze();
  assert.ok(before.frozen);
  assert.deepEqual(await server.clock.now(), before.now);
  const after = await server.clock.advance(300_000);
  assert.equal(after.now.getTime() - before.now.getTime(), 300_000);
  assert.ok(!(await server.clock.follow()).frozen);
  const address = server.tableEndpoint;
  await server.restart();
  assert.equal(server.tableEndpoint, address);
  assert.ok(Math.abs((await server.clock.now()).getTime() - Date.now()) < 60_000);
});

withServer("snapshots, forks and states", async (server) => {
  await server.control("POST", TABLES, { TableName: "first" });
  const [snapshot, state] = [await server.snapshot(), await server.exportState()];
  const fork = await server.fork();
  await fork.control("POST", TABLES, { TableName: "second" });
  assert.deepEqual([await tableNames(fork), await tableNames(server)], [["first", "second"], ["first"]]);
  await fork.close();
  await server.reset();
  assert.deepEqual(await tableNames(server), []);
  await server.restore(snapshot);
  assert.deepEqual(await tableNames(server), ["first"]);
  await snapshot.delete();
  await server.reset({ service: "table" });
  await server.importState(state);
  assert.deepEqual(await tableNames(server), ["first"]);
});

withServer("a seed fills the server", async (server) => {
  const order = { PartitionKey: "ada", RowKey: "1", item: "lamp" };
  const counted = await server.seed({ tables: { orders: [order] } });
  assert.deepEqual([counted.tables, counted.entities], [1, 1]);
  const path = "/v1/data/table/devstoreaccount1/orders(PartitionKey='ada',RowKey='1')";
  assert.equal((await server.control("GET", path)).item, "lamp");
  await assert.rejects(server.seed({ tables: 7 }), ControlError);
});

withServer("throttling, cuts and the secondary end", async (server) => {
  const throttled = await server.throttle({ requestsPerAccount: 1 });
  const pages = await server.pages(7);
  const behind = await server.holdBackSecondary();
  const { targets } = await server.control("GET", "/v1/throttle");
  assert.equal(/** @type {{ requestsPerAccount: number }} */ (targets).requestsPerAccount, 1);
  assert.equal((await server.control("GET", "/v1/secondary")).heldBack, true);
  assert.equal(await pages.cuts(), 0);
  for (const guard of [throttled, pages, behind]) await guard.end();
  assert.equal((await server.control("GET", "/v1/throttle")).targets, null);
  assert.equal((await server.control("GET", "/v1/pages")).pages, null);
  assert.equal((await server.control("GET", "/v1/secondary")).heldBack, false);
});

withServer("the journal is filtered", async (server) => {
  await tables(server);
  const before = await server.journal();
  await tables(server);
  const later = (await server.journal()).since(before);
  assert.deepEqual([before.length, later.length, later.count("QueryTables")], [1, 1, 1]);
  assert.equal(later.committed().length + later.service("queue").length + later.about("orders").length, 0);
  assert.match(String(later), /QueryTables/);
  await server.clearJournal();
  assert.equal((await server.journal()).length, 0);
});
