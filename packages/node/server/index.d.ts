/// <reference lib="esnext.disposable" />

import type { Operation, Service } from "./operations";

export type { Operation, Service };

/** How a server is started. */
export interface ServerOptions {
  /** Flags of the program, such as `"--strict"`. */
  flags?: readonly string[];
  /** How long it may take to start, in milliseconds. Default: 30,000. */
  timeout?: number;
  /** The path of another program than the packaged one. The variable `ROWKEY_SERVER` names one as well. */
  program?: string;
}

/**
 * Starts a server on free ports of this machine, with its data in memory. It runs until `close`, the end of the block of
 * `await using`, or the end of this process, however that ends.
 */
export function startServer(options?: ServerOptions): Promise<Server>;

/** The path of the packaged program. Throws a `StartError` if its package is missing. */
export function findProgram(): string;

/** A server: the program, or a fork in it. */
export class Server implements AsyncDisposable {
  private constructor();
  /** What an Azure SDK connects with. */
  readonly connectionString: string;
  /** The address of the Table service, with the account. */
  readonly tableEndpoint: string;
  /** The address of the Queue service, with the account. */
  readonly queueEndpoint: string;
  /** The address of the Blob service, with the account. */
  readonly blobEndpoint: string;
  /** The address of the control port, which shows a page in a browser. */
  readonly controlEndpoint: string;
  /** Where `--oauth issue` issues tokens; `null` without that flag. */
  readonly authority: string | null;
  /** The certificate of `--https` in PEM. */
  readonly certificate: string | null;
  /** The server's clock. */
  readonly clock: Clock;
  /** Ends the server. Ending it twice has no effect. */
  close(): Promise<void>;
  /**
   * Ends the program and starts it again on the same ports. All is as at the start: no data, no fault, and the machine's
   * time. A fork cannot be restarted.
   */
  restart(): Promise<void>;
  /** The last lines that the program logged. A fork logs with its parent. */
  log(): string;
  /**
   * Injects a fault, which is active until `remove`, the end of the block of `await using`, or `reset`.
   *
   * Faults are matched in the order in which they were injected. The first match applies to the request.
   */
  inject(fault: Fault): Promise<Injected>;
  /**
   * Rejects requests beyond these rates per second with 503 `ServerBusy` and `Retry-After`, until the result is ended. A
   * second's worth may be used at once; it refills by the server's clock.
   */
  throttle(targets?: Targets): Promise<Guard>;
  /**
   * Cuts pages of entity queries and of listings, until the result is ended. The same seed cuts the same sequence of
   * requests at the same places.
   */
  pages(seed: number, pages?: Pages): Promise<Chaos>;
  /** Keeps the secondary from catching up, until the result is ended. */
  holdBackSecondary(): Promise<Guard>;
  /** The requests received so far, or those of them that match. */
  journal(filter?: JournalFilter): Promise<Journal>;
  /** Forgets the requests received so far. */
  clearJournal(): Promise<void>;
  /** A copy of everything the server contains now. Tables cost almost nothing until one is changed. */
  snapshot(): Promise<Snapshot>;
  /** Restores the contents that this server had when the snapshot was taken. Nothing else changes. */
  restore(snapshot: Snapshot): Promise<void>;
  /**
   * Starts another server in the same program, on its own ports, with the same contents and the same time. From then on the
   * two are independent. Faults, throttling, page cuts and the journal are not copied.
   */
  fork(): Promise<Server>;
  /**
   * Deletes everything: data, faults, page cuts and the journal. With an account or a service, only its data. The clock
   * keeps its time.
   */
  reset(only?: { account?: string; service?: Service }): Promise<void>;
  /** Puts tables, queues and blobs in, in the format of a file of `--seed`. Returns how many of each. */
  seed(contents: object): Promise<Record<string, number>>;
  /** The whole contents as one file. */
  exportState(): Promise<Uint8Array>;
  /** Replaces the contents by those of a file of `exportState`. */
  importState(state: Uint8Array): Promise<void>;
  /** Sends any other request to the control port, which `controlEndpoint` + `/openapi.json` lists. */
  control(method: string, path: string, body?: object): Promise<Record<string, unknown>>;
  /** Ends the server. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * The clock that everything on the server follows that depends on time: timestamps, the visibility and expiry of messages,
 * leases, shared access signatures, blocked names, injected delays and throttling.
 *
 * Clients date their requests by the machine's clock, and the server refuses (403) those that are more than 15 minutes from
 * its own: move it by less, in one test.
 */
export interface Clock {
  /** The time, and whether it stands still. */
  read(): Promise<ClockReading>;
  /** The time. */
  now(): Promise<Date>;
  /** Moves the clock forward. */
  advance(milliseconds: number): Promise<ClockReading>;
  /** Stops the clock. It can still be advanced. */
  freeze(): Promise<ClockReading>;
  /** Lets the clock go on from the time that it shows. */
  follow(): Promise<ClockReading>;
}

/** What the clock of a server shows. */
export interface ClockReading {
  readonly now: Date;
  /** Whether it stands still. */
  readonly frozen: boolean;
}

/** The rates per second above which a server answers 503. The defaults are the service's documented targets. */
export interface Targets {
  /** Requests to an account. Default: 20,000. */
  requestsPerAccount?: number;
  /** Entities that are read or written in a partition. Default: 2,000. */
  entitiesPerPartition?: number;
  /** Requests about the messages of a queue. Default: 2,000. */
  messagesPerQueue?: number;
}

/** How pages of results are cut; all of it by default. */
export interface Pages {
  /** Pages end after a few rows. */
  cut?: boolean;
  /** First pages have no entities, but a continuation token. */
  empty?: boolean;
  /** Pages end at the end of their partition, with a token without a `NextRowKey`. */
  partitionOnly?: boolean;
}

/** What lasts until it is ended: throttling, or a secondary that is held back. */
export interface Guard extends AsyncDisposable {
  /** Ends it. Ending it twice has no effect. */
  end(): Promise<void>;
}

/** Pages of results that end early. */
export interface Chaos extends Guard {
  /** The number of pages that were selected to end early, including those that had no more rows anyway. */
  cuts(): Promise<number>;
}

/** The contents that a server had at one instant. The server keeps it until it ends. */
export interface Snapshot {
  /** The number of the snapshot on its server. */
  readonly id: number;
  /** Lets the server forget it. */
  delete(): Promise<void>;
}

/** What happens to the requests that a fault matches, in the form of the control port. */
export type Action =
  | "closeAfterCommit"
  | "closeBeforeCommit"
  | "hold"
  | { reject: string }
  | { delayMs: number }
  | { truncate: number };

/** A fault in the form that the control port takes, as in a file of `--faults`. */
export interface FaultJSON {
  operation?: Operation;
  service?: Service;
  resource?: string;
  nth?: number;
  times?: number;
  action: Action;
}

/**
 * A failure of certain requests. Select the requests first, then what happens to them:
 *
 * ```js
 * Fault.on("InsertEntity").resource("orders").nth(2).closeAfterCommit()
 * ```
 */
export class Fault {
  private constructor();
  /**
   * Matches requests of one operation, named as in the REST reference. Reading one entity by its keys is `GetEntity`, and
   * reading one table by its name is `GetTable`.
   */
  static on(operation: Operation): Matching;
  /** Matches requests to one service. */
  static service(service: Service): Matching;
  /** Matches all requests. */
  static any(): Matching;
  /** A fault in the form of the control port. */
  static fromJSON(fault: FaultJSON): Fault;
  /** The fault in the form of the control port. */
  toJSON(): FaultJSON;
}

/** The requests that a fault matches. Choosing an action turns it into a `Fault`. */
export interface Matching {
  /**
   * Matches only requests about this table, queue or container (including everything in it), or about this blob, written
   * `container/name`. Names are compared without case.
   */
  resource(name: string): Matching;
  /** Matches only the `k`-th of these requests, counted from 1; with `times`, from the `k`-th on. */
  nth(k: number): Matching;
  /** Matches at most `n` of them. Without this and without `nth`, it matches all. */
  times(n: number): Matching;
  /** Rejects them with this error code, such as `"ServerBusy"`, and its status. Nothing is changed. */
  reject(code: string): Fault;
  /**
   * Delays their responses until the server's clock is this much past their arrival. Changes take effect at once.
   * Parts of a millisecond are rounded up.
   */
  delay(milliseconds: number): Fault;
  /** Closes the connection without executing them. */
  closeBeforeCommit(): Fault;
  /** Executes them, and closes the connection without sending the response. */
  closeAfterCommit(): Fault;
  /** Executes them, and closes the connection after the head of the response and this number of bytes of its body. */
  truncate(bytes: number): Fault;
  /** Holds them before they are executed, until `Injected.release` or `Injected.discard`. */
  hold(): Fault;
}

/**
 * A fault that is active until it is removed, which the end of a block of `await using` does, or the server is reset.
 * Removing it lets the requests go on that it holds.
 */
export class Injected implements AsyncDisposable {
  private constructor();
  /** The number of the fault on the server, which entries of the journal name. */
  readonly id: number;
  /** What was injected. */
  readonly fault: Fault;
  /** The number of requests that matched, also after the fault was removed. */
  hits(): Promise<number>;
  /** The number of requests that `hold` holds now. */
  held(): Promise<number>;
  /** Waits until at least `n` requests have matched, or throws a `WaitTimeoutError`. */
  waitUntilHit(n?: number, options?: { timeout?: number }): Promise<void>;
  /** Waits until `hold` holds at least one request, or throws a `WaitTimeoutError`. */
  waitUntilHeld(options?: { timeout?: number }): Promise<void>;
  /** Lets the held requests continue. Later ones are not held. */
  release(): Promise<void>;
  /** Removes the fault, and closes the connections of the held requests, which are not executed. */
  discard(): Promise<void>;
  /** Removes the fault. The requests that it holds continue. */
  remove(): Promise<void>;
  /** Removes the fault, and warns if no request matched and `hits` was never called. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Which requests of the journal are returned. */
export interface JournalFilter {
  operation?: Operation;
  service?: Service;
  account?: string;
  /** The table, queue or container, or the blob. */
  about?: string;
  /** Whether they changed something. */
  committed?: boolean;
}

/** A request in a `Journal`. */
export interface JournalEntry {
  /** Its position among all requests that the server received, from 1. */
  readonly number: number;
  /** When it arrived, by the server's clock. */
  readonly at: Date;
  readonly service: Service;
  readonly operation: Operation;
  /** The account in its address. */
  readonly account: string;
  /** The table, queue or container that it is about, or the blob, written `container/name`. */
  readonly resource: string;
  /** The status of its answer, or `null` if there was none. */
  readonly status: number | null;
  /** Whether it changed something. */
  readonly committed: boolean;
  /** The error code of its answer. */
  readonly code?: string;
  /** The rule by which it was refused. */
  readonly rule?: string;
  /** What its signature should have been computed from, if it was refused for its signature. */
  readonly stringToSign?: string;
  /** The number of the fault that applied to it. */
  readonly fault?: number;
}

/** The requests that a server received, oldest first. A server remembers the last 10,000. */
export class Journal implements Iterable<JournalEntry> {
  private constructor();
  readonly entries: readonly JournalEntry[];
  readonly length: number;
  /** The number of requests of this operation, successful or not. */
  count(operation: Operation): number;
  /** Only requests of this operation. */
  of(operation: Operation): Journal;
  /** Only requests to this service. */
  service(service: Service): Journal;
  /** Only requests about this table, queue or container (including everything in it), or about this blob. */
  about(name: string): Journal;
  /** Only requests that came after the last request of an earlier journal. */
  since(earlier: Journal): Journal;
  /** Only requests that changed something. */
  committed(): Journal;
  /** Only requests for which this is true. */
  filter(keep: (entry: JournalEntry) => boolean): Journal;
  /** One line for each request. */
  toString(): string;
  [Symbol.iterator](): Iterator<JournalEntry>;
}

/** The server did not start, or refused what it was asked. */
export class ServerError extends Error {}

/** The program is missing, ended, or did not become ready. The message has what it logged. */
export class StartError extends ServerError {}

/** The server refused a request to its control port. */
export class ControlError extends ServerError {
  /** The HTTP status. */
  readonly status: number;
  /** The name of the status. */
  readonly title: string;
  /** What happened, and what to do. */
  readonly detail: string;
}

/** What was waited for did not happen in time. */
export class WaitTimeoutError extends ControlError {}
