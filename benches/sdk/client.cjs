// The official client for JavaScript, as one of the contenders: client.cjs WORKLOAD OPERATIONS HOST.
// Prints the CPU time in nanoseconds, and 0 allocations, as the contenders in Rust do.
"use strict";

const { AzureNamedKeyCredential, TableClient } = require("@azure/data-tables");

// The account that every emulator has; its key is no secret.
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const IN_FLIGHT = 16;
const PER_PARTITION = 1000;

const [workload, count, host] = process.argv.slice(2);

// An entity with the properties of `Reading`, and texts as long as its.
function reading(number) {
  return {
    partitionKey: "p00000",
    rowKey: String(number).padStart(7, "0"),
    Level: number % 100,
    Total: { type: "Int64", value: String(712345678901234567n + BigInt(number)) },
    Ratio: number / 7 + 0.5,
    Active: number % 2 === 0,
    Measured: new Date("2026-11-20T12:34:56.765Z"),
    Device: { type: "Guid", value: `c9da6455-213d-42c9-9a79-${String(number).padStart(12, "0")}` },
    Name: "n".repeat(24),
    Site: "s".repeat(40),
    Notes: "o".repeat(256),
    Comment: "c".repeat(256),
  };
}

const open = (table) =>
  new TableClient(`http://${host}/${ACCOUNT}`, table, new AzureNamedKeyCredential(ACCOUNT, KEY), {
    allowInsecureConnection: true,
  });
const read = open("small");
const written = open("written");
const readings = Array.from({ length: 100 }, (_, number) => reading(number));

const workloads = {
  get: async (entity) => Boolean((await read.getEntity("p00000", entity.rowKey)).rowKey),
  insert: async (entity) => Boolean((await written.createEntity(entity)).etag),
  EGT: async () => {
    const answer = await written.submitTransaction(readings.map((entity) => ["create", entity]));
    return answer.subResponses.length === readings.length;
  },
  query: async () => {
    let found = 0;
    const entities = read.listEntities({ queryOptions: { filter: "PartitionKey eq 'p00000'" } });
    for await (const entity of entities) found += entity.rowKey ? 1 : 0;
    return found === PER_PARTITION;
  },
};

async function some(operations) {
  let next = 0;
  const worker = async () => {
    while (next < operations) {
      const entity = readings[next++ % readings.length];
      if (!(await workloads[workload](entity))) throw new Error("an answer is not what was asked for");
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
}

async function main() {
  const operations = Number(count);
  await some(Math.floor(operations / 10) + 2 * IN_FLIGHT);
  const begun = process.cpuUsage();
  await some(operations);
  const { user, system } = process.cpuUsage(begun);
  console.log((user + system) * 1000, 0);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
