// Runs `scenario.json` with the Azure SDK for JavaScript, and compares the journal with `scenario.journal.json`.
//
//     node scenario.mjs FOLDER
//
// where FOLDER has both files, because the packages are found from where this file is.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { RestError, TableClient, TableServiceClient } from "@azure/data-tables";
import { QueueServiceClient } from "@azure/storage-queue";
import { Fault, startServer } from "rowkey-server";

const folder = process.argv[2];
const read = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));

/** What a step expects: what the call returns, the status of its answer, or that there was none. */
async function outcome(call) {
  try {
    return await call();
  } catch (error) {
    // The two libraries have an error of this name each.
    if (!(error instanceof RestError) && error.name !== "RestError") throw error;
    return error.statusCode ?? "no answer";
  }
}

class Scenario {
  journal = [];
  #faults = new Map();
  #snapshots = new Map();
  #throttled;
  #server;
  #queues;

  // Each step is one request.
  #options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

  constructor(server) {
    this.#server = server;
    const options = { retryOptions: { maxTries: 1 } };
    this.#queues = QueueServiceClient.fromConnectionString(server.connectionString, options);
  }

  #table(name) {
    return TableClient.fromConnectionString(this.#server.connectionString, name, this.#options);
  }

  /** Carries out one step, and returns what it expects. */
  async step({ do: action, table, queue, name, partition, row, ...step }) {
    const server = this.#server;
    switch (action) {
      case "createTable": {
        const tables = TableServiceClient.fromConnectionString(server.connectionString, this.#options);
        // Asks for nothing in the answer, which is then a 204. Other clients do so by default.
        await tables.createTable(table, { responsePreference: "return-no-content" });
        return;
      }
      case "createQueue":
        await this.#queues.createQueue(queue);
        return;
      case "insert":
        await this.#table(table).createEntity({ partitionKey: partition, rowKey: row, item: step.item });
        return "ok";
      case "get":
        return (await this.#table(table).getEntity(partition, row)).item;
      case "put":
        await this.#queues.getQueueClient(queue).sendMessage(step.text);
        return "ok";
      case "receive": {
        const client = this.#queues.getQueueClient(queue);
        const { receivedMessageItems } = await client.receiveMessages({ visibilityTimeout: step.visibility });
        return receivedMessageItems[0]?.messageText ?? null;
      }
      case "inject":
        this.#faults.set(name, await server.inject(Fault.fromJSON(step.fault)));
        return;
      case "hits":
        return await this.#faults.get(name).hits();
      case "remove":
        return await this.#faults.get(name).remove();
      case "throttle":
        this.#throttled = await server.throttle(step.targets);
        return;
      case "unthrottle":
        return await this.#throttled.end();
      case "freeze":
        await server.clock.freeze();
        return;
      case "follow":
        await server.clock.follow();
        return;
      case "advance":
        await server.clock.advance(step.seconds * 1_000);
        return;
      case "snapshot":
        this.#snapshots.set(name, await server.snapshot());
        return;
      case "restore":
        return await server.restore(this.#snapshots.get(name));
      case "reset":
        return await server.reset();
      case "journal":
        for (const { operation, resource, status, committed } of await server.journal()) {
          this.journal.push({ operation, resource, status, committed });
        }
        return;
      default:
        throw new Error(`no such step: ${action}`);
    }
  }
}

const { steps } = read("scenario.json");
const server = await startServer();
const scenario = new Scenario(server);
for (const [at, { expect, ...step }] of steps.entries()) {
  const is = await outcome(() => scenario.step(step));
  assert.deepEqual(is, expect, `step ${at + 1}, ${JSON.stringify(step)}`);
}
await server.close();
assert.deepEqual(scenario.journal, read("scenario.journal.json"));
console.log(`JavaScript: ${steps.length} steps, ${scenario.journal.length} requests, the journal is that of Python`);
