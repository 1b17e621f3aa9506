// What the order service does when its storage fails, and as time passes.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { Fault, startServer } from "rowkey-server";
import { Busy, NumberTaken, Orders } from "./orders.js";

/** @type {import("rowkey-server").Server} */
let server;
/** @type {Orders} */
let orders;

before(async () => {
  server = await startServer();
});

after(() => server.close());

beforeEach(async () => {
  await server.reset();
  // Without the attempts of the SDK, so that a test sees each answer.
  orders = new Orders(server.connectionString, { retries: 0 });
  await orders.create();
});

test("an order is shipped once", async () => {
  await orders.place("ada", "1", "lamp");
  assert.equal(await orders.ship(), "1");
  assert.equal(await orders.ship(), undefined);
});

test("an order whose answer is lost is stored once", async () => {
  // The server stores the order, and closes the connection without an answer.
  const lost = await server.inject(Fault.on("InsertEntity").resource("orders").nth(1).closeAfterCommit());
  await orders.place("ada", "1", "lamp");
  assert.equal(await lost.hits(), 1);
  const inserts = await server.journal({ operation: "InsertEntity" });
  assert.deepEqual(
    [...inserts].map(({ status, committed }) => [status, committed]),
    [
      [null, true],
      [409, false],
    ],
  );
  assert.deepEqual([await orders.ship(), await orders.ship()], ["1", undefined]);
});

test("an order whose answer is lost is stored once when the SDK tries again by itself", async () => {
  orders = new Orders(server.connectionString);
  const lost = await server.inject(Fault.on("InsertEntity").nth(1).closeAfterCommit());
  await orders.place("ada", "1", "lamp");
  assert.equal(await lost.hits(), 1);
  assert.equal((await server.journal({ operation: "InsertEntity" })).committed().length, 1);
});

test("a taken number is not mistaken for a lost answer", async () => {
  await orders.place("ada", "1", "lamp");
  await assert.rejects(orders.place("ada", "1", "desk"), NumberTaken);
});

test("a message that was put twice ships the order once", async () => {
  const lost = await server.inject(Fault.on("PutMessage").nth(1).closeAfterCommit());
  await assert.rejects(orders.place("ada", "1", "lamp"));
  assert.equal(await lost.hits(), 1);
  // The customer tries again.
  await orders.place("ada", "1", "lamp");
  assert.equal((await server.journal({ operation: "PutMessage" })).committed().length, 2);
  assert.deepEqual([await orders.ship(), await orders.ship(), await orders.ship()], ["1", undefined, undefined]);
});

test("a busy account costs no order", async () => {
  await server.clock.freeze();
  const throttled = await server.throttle({ entitiesPerPartition: 1 });
  try {
    await orders.place("ada", "1", "lamp");
    await assert.rejects(orders.place("ada", "2", "desk"), Busy);
    // A second later there is room again, and no test waits for it.
    await server.clock.advance(1_000);
    await orders.place("ada", "2", "desk");
  } finally {
    await throttled.end();
    await server.clock.follow();
  }
});

test("the order of a worker that was killed is shipped by another", async () => {
  await orders.place("ada", "1", "lamp");
  await server.inject(Fault.on("GetEntity").nth(1).closeBeforeCommit());
  await assert.rejects(orders.ship());
  assert.equal(await orders.ship(), undefined, "the message is hidden for 30 s");
  await server.clock.advance(31_000);
  assert.equal(await orders.ship(), "1");
});

test("each test begins with an empty server", async () => {
  assert.equal((await server.journal()).count("InsertEntity"), 0);
  assert.equal(await orders.ship(), undefined);
});

test("a fork begins with prepared data, and leaves it as it is", async () => {
  await orders.place("ada", "1", "lamp");
  const fork = await server.fork();
  try {
    assert.equal(await new Orders(fork.connectionString).ship(), "1");
  } finally {
    await fork.close();
  }
  assert.equal(await orders.ship(), "1");
});
