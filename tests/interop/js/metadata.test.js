// Metadata whose names are signed in an order that is not that of bytes: `chunk_count` before `chunk1`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { connectionString, freshName } from "./support.js";

const names = [
  { chunk1: "a", chunk_count: "b" },
  { part2: "a", part_of: "b" },
  { ab: "a", a_b: "b", a1: "c", a_1: "d" },
];

for (const metadata of names) {
  test(`a container and a blob take ${Object.keys(metadata)}`, async () => {
    const container = BlobServiceClient.fromConnectionString(connectionString).getContainerClient(freshName());
    await container.create({ metadata });
    await container.setMetadata(metadata);
    assert.deepEqual((await container.getProperties()).metadata, metadata);
    const blob = container.getBlockBlobClient("a");
    await blob.upload("x", 1, { metadata });
    await blob.setMetadata(metadata);
    assert.deepEqual((await blob.getProperties()).metadata, metadata);
    await container.delete();
  });

  test(`a queue takes ${Object.keys(metadata)}`, async () => {
    const queue = QueueServiceClient.fromConnectionString(connectionString).getQueueClient(freshName());
    await queue.create({ metadata });
    await queue.setMetadata(metadata);
    assert.deepEqual((await queue.getProperties()).metadata, metadata);
    await queue.delete();
  });
}
