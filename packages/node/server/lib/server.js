"use strict";

// A server: the program, or a fork in it, and what a test can ask of it.

const { Control } = require("./control.js");
const { asyncDispose } = require("./dispose.js");
const { ServerError } = require("./errors.js");
const { Injected } = require("./fault.js");
const { Journal, entry } = require("./journal.js");
const { Program, controlToken, findProgram } = require("./program.js");

/** The flags of the ports, which a restart keeps. */
const PORTS = ["--blob-port", "--queue-port", "--table-port", "--control-port", "--oauth-port"];

/** Starts a server on free ports, with its data in memory. */
async function startServer(options = {}) {
  return await Server.start(options);
}

class Server {
  #control;
  #program;
  #parent;
  #options;
  #restarting;

  /** Use `startServer`. */
  constructor(ready, { token, program, parent, options }) {
    this.#program = program;
    this.#parent = parent;
    this.#options = options;
    this.#describe(ready, token);
  }

  static async start(options) {
    const { ready, ...started } = await launch(options, PORTS.map(() => 0));
    return new Server(ready, { ...started, options });
  }

  #describe(ready, token) {
    this.connectionString = ready.connectionString;
    this.tableEndpoint = ready.table;
    this.queueEndpoint = ready.queue;
    this.blobEndpoint = ready.blob;
    this.controlEndpoint = ready.control;
    this.authority = ready.authority ?? null;
    this.certificate = ready.certificate ?? null;
    this.#control = new Control(ready.control, token);
    this.clock = new Clock(this.#control);
  }

  async close() {
    // The program that it starts is to be closed, too.
    await this.#restarting?.catch(() => {});
    const [program, parent] = [this.#program, this.#parent];
    this.#program = this.#parent = undefined;
    await program?.close();
    try {
      await parent?.control.send("DELETE", `/v1/forks/${parent.id}`);
    } catch (error) {
      // A fork ends with its parent, which may have ended already.
      if (!(error instanceof ServerError)) throw error;
    }
  }

  async [asyncDispose]() {
    await this.close();
  }

  restart() {
    // Two at once are one, because only one program can have the ports.
    this.#restarting ??= this.#restart().finally(() => {
      this.#restarting = undefined;
    });
    return this.#restarting;
  }

  async #restart() {
    if (!this.#program) {
      throw new ServerError("this server was closed, or is a fork: only a running program can be restarted");
    }
    const endpoints = [this.blobEndpoint, this.queueEndpoint, this.tableEndpoint, this.controlEndpoint, this.authority];
    // Without a port in its address it is the usual one, which only the caller's flags can have named.
    const ports = endpoints.map((endpoint) => (endpoint && new URL(endpoint).port) || 0);
    await this.#program.close();
    const { program, ready, token } = await launch(this.#options, ports);
    this.#program = program;
    this.#describe(ready, token);
  }

  log() {
    return this.#program?.log() ?? "";
  }

  async inject(fault) {
    const { id } = await this.#control.send("POST", "/v1/faults", fault);
    return new Injected(this.#control, fault, id);
  }

  async throttle(targets = {}) {
    await this.#control.send("PUT", "/v1/throttle", targets);
    return new Guard(this.#control, "/v1/throttle");
  }

  async pages(seed, { cut = true, empty = true, partitionOnly = true } = {}) {
    await this.#control.send("PUT", "/v1/pages", { seed, cut, empty, partitionOnly });
    return new Chaos(this.#control, "/v1/pages");
  }

  async holdBackSecondary() {
    await this.#control.send("PUT", "/v1/secondary", {});
    return new Guard(this.#control, "/v1/secondary");
  }

  async journal({ operation, service, account, about, committed } = {}) {
    const query = { operation, service, account, about, committed };
    const { entries } = await this.#control.send("GET", "/v1/journal", undefined, query);
    return new Journal(entries.map(entry));
  }

  async clearJournal() {
    await this.#control.send("DELETE", "/v1/journal");
  }

  async snapshot() {
    const { id } = await this.#control.send("POST", "/v1/snapshots");
    return new Snapshot(this.#control, id);
  }

  async restore(snapshot) {
    await this.#control.send("POST", `/v1/snapshots/${snapshot.id}/restore`);
  }

  async fork() {
    const answer = await this.#control.send("POST", "/v1/forks");
    const parent = { control: this.#control, id: answer.id };
    const fork = new Server(answer, { token: this.#control.token, parent, options: this.#options });
    // The answer does not name it.
    if (this.authority) fork.authority = (await fork.control("GET", "/v1/identities")).authority;
    return fork;
  }

  async reset({ account, service } = {}) {
    await this.#control.send("POST", "/v1/reset", { account, service });
  }

  async seed(contents) {
    return await this.#control.send("POST", "/v1/seed", contents);
  }

  async exportState() {
    return await this.#control.sendBytes("GET", "/v1/state");
  }

  async importState(state) {
    await this.#control.sendBytes("PUT", "/v1/state", Buffer.from(state));
  }

  async control(method, path, body) {
    return await this.#control.send(method, path, body);
  }
}

class Clock {
  #control;

  constructor(control) {
    this.#control = control;
  }

  async read() {
    return reading(await this.#control.send("GET", "/v1/clock"));
  }

  async now() {
    return (await this.read()).now;
  }

  async advance(milliseconds) {
    return reading(await this.#control.send("POST", "/v1/clock/advance", { seconds: milliseconds / 1000 }));
  }

  async freeze() {
    return reading(await this.#control.send("POST", "/v1/clock/freeze"));
  }

  async follow() {
    return reading(await this.#control.send("POST", "/v1/clock/follow"));
  }
}

/** Throttling, or a secondary that is held back. */
class Guard {
  constructor(control, path) {
    this._control = control;
    this._path = path;
  }

  async end() {
    await this._control.send("DELETE", this._path);
  }

  async [asyncDispose]() {
    await this.end();
  }
}

class Chaos extends Guard {
  async cuts() {
    return (await this._control.send("GET", this._path)).cuts;
  }
}

class Snapshot {
  #control;

  constructor(control, id) {
    this.#control = control;
    this.id = id;
  }

  async delete() {
    await this.#control.send("DELETE", `/v1/snapshots/${this.id}`);
  }
}

function reading({ now, frozen }) {
  return { now: new Date(now), frozen };
}

async function launch({ flags = [], timeout = 30_000, program: path }, ports) {
  // A connection string without the key of `--accounts` connects nothing. The ready line goes into a pipe that only this
  // process reads, and into no log. The control port shows keys, too; its callers may do everything anyway. The flags of the
  // caller are the last, and win.
  const all = ["--show-keys", ...PORTS.flatMap((name, at) => [name, String(ports[at])]), ...flags];
  const token = controlToken(flags);
  const program = new Program(path ?? findProgram(), all, token);
  return { program, token, ready: await program.ready(timeout) };
}

module.exports = { Server, startServer };
