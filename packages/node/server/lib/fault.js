"use strict";

// Faults: which requests they match, and what happens to those requests.

const { asyncDispose } = require("./dispose.js");
const { ControlError } = require("./errors.js");

/** The requests that a fault matches. Choosing an action turns it into a `Fault`. */
class Matching {
  #json;

  constructor(json) {
    this.#json = json;
  }

  resource(name) {
    return new Matching({ ...this.#json, resource: name });
  }

  nth(k) {
    return new Matching({ ...this.#json, nth: k });
  }

  times(n) {
    return new Matching({ ...this.#json, times: n });
  }

  reject(code) {
    return this.#then({ reject: code });
  }

  delay(milliseconds) {
    return this.#then({ delayMs: Math.ceil(milliseconds) });
  }

  closeBeforeCommit() {
    return this.#then("closeBeforeCommit");
  }

  closeAfterCommit() {
    return this.#then("closeAfterCommit");
  }

  truncate(bytes) {
    return this.#then({ truncate: bytes });
  }

  hold() {
    return this.#then("hold");
  }

  #then(action) {
    return Fault.fromJSON({ ...this.#json, action });
  }
}

/** A failure of certain requests. */
class Fault {
  #json;

  constructor(json) {
    this.#json = json;
  }

  static on(operation) {
    return new Matching({ operation });
  }

  static service(service) {
    return new Matching({ service });
  }

  static any() {
    return new Matching({});
  }

  static fromJSON(fault) {
    return new Fault({ ...fault });
  }

  toJSON() {
    return { ...this.#json };
  }
}

/** A fault that is active until it is removed, or the server is reset. */
class Injected {
  #control;
  #path;
  #lastHits = 0;
  #active = true;
  #observed = false;

  constructor(control, fault, id) {
    this.#control = control;
    this.#path = `/v1/faults/${id}`;
    this.id = id;
    this.fault = fault;
  }

  async hits() {
    this.#observed = true;
    return await this.#hits();
  }

  async held() {
    return this.#active ? (await this.#control.send("GET", this.#path)).held : 0;
  }

  async waitUntilHit(n = 1, { timeout = 10_000 } = {}) {
    await this.#wait("hits", n, timeout);
  }

  async waitUntilHeld({ timeout = 10_000 } = {}) {
    await this.#wait("held", 1, timeout);
  }

  async release() {
    await this.#control.send("POST", `${this.#path}/release`);
  }

  async discard() {
    await this.#remove({ discard: true });
  }

  async remove() {
    await this.#remove({});
  }

  async [asyncDispose]() {
    await this.#remove({});
    if (!this.#observed && this.#lastHits === 0) {
      const fault = JSON.stringify(this.fault);
      const message = `no request matched the fault ${fault}; does it name the right operation?`;
      process.emitWarning(message, { code: "ROWKEY_UNUSED_FAULT" });
    }
  }

  async #hits() {
    if (this.#active) {
      try {
        this.#lastHits = (await this.#control.send("GET", this.#path)).hits;
      } catch (error) {
        this.#forget(error);
      }
    }
    return this.#lastHits;
  }

  async #remove(query) {
    await this.#hits();
    if (!this.#active) return;
    this.#active = false;
    try {
      await this.#control.send("DELETE", this.#path, undefined, query);
    } catch (error) {
      this.#forget(error);
    }
  }

  async #wait(what, n, timeout) {
    this.#observed = true;
    const query = { [what]: n, timeoutMs: Math.ceil(timeout) };
    this.#lastHits = (await this.#control.send("GET", `${this.#path}/wait`, undefined, query, timeout)).hits;
  }

  /** A reset has removed the fault, or it is another error. */
  #forget(error) {
    if (!(error instanceof ControlError) || error.status !== 404) throw error;
    this.#active = false;
  }
}

module.exports = { Fault, Injected, Matching };
