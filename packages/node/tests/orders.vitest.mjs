// The package under vitest, which imports it.

import { QueueClient } from "@azure/storage-queue";
import { Fault, startServer } from "rowkey-server";
import { afterAll, beforeAll, expect, test } from "vitest";

let server;

beforeAll(async () => {
  server = await startServer();
});

afterAll(() => server.close());

test("a message whose answer is lost is there", async () => {
  const queue = new QueueClient(server.connectionString, "mails", { retryOptions: { maxTries: 1 } });
  await queue.create();
  const lost = await server.inject(Fault.on("PutMessage").nth(1).closeAfterCommit());
  await expect(queue.sendMessage("hello")).rejects.toThrow();
  expect(await lost.hits()).toBe(1);
  expect((await queue.receiveMessages()).receivedMessageItems).toHaveLength(1);
});
