// What the declarations say, for `import`; compiled and never run.

import { Fault, startServer, type Injected, type Journal, type Operation, type Server } from "rowkey-server";

export async function uses(): Promise<void> {
  await using server: Server = await startServer({ flags: ["--strict"], timeout: 1_000 });
  await using lost: Injected = await server.inject(Fault.on("InsertEntity").resource("orders").nth(2).closeAfterCommit());
  const hits: number = await lost.hits();
  const journal: Journal = await server.journal({ operation: "InsertEntity", committed: true });
  const statuses: (number | null)[] = [...journal].map((entry) => entry.status);
  const operation: Operation | undefined = journal.entries.at(-1)?.operation;
  await using throttled = await server.throttle({ entitiesPerPartition: 1 });
  await throttled.end();
  const { now, frozen }: { now: Date; frozen: boolean } = await server.clock.advance(1_000);
  await server.restore(await server.snapshot());
  await using fork: Server = await server.fork();
  console.log(hits, statuses, operation, now, frozen, fork.connectionString);

  // @ts-expect-error: no such operation
  Fault.on("InsertEntities");
  // @ts-expect-error: requests without an action are no fault
  await server.inject(Fault.any());
  // @ts-expect-error: an entry is read only
  journal.entries[0].status = 200;
  // @ts-expect-error: a promise is no number
  const wrong: number = lost.hits();
}
