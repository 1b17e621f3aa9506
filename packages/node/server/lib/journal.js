"use strict";

// The journal: the requests that a server received, in order.

/** The requests that a server received, oldest first. */
class Journal {
  constructor(entries) {
    this.entries = Object.freeze([...entries]);
  }

  get length() {
    return this.entries.length;
  }

  count(operation) {
    return this.of(operation).length;
  }

  of(operation) {
    return this.filter((entry) => entry.operation === operation);
  }

  service(service) {
    return this.filter((entry) => entry.service === service);
  }

  about(name) {
    const wanted = name.toLowerCase();
    return this.filter((entry) => {
      const resource = entry.resource.toLowerCase();
      return resource === wanted || resource.startsWith(`${wanted}/`);
    });
  }

  since(earlier) {
    const last = earlier.entries.at(-1)?.number ?? 0;
    return this.filter((entry) => entry.number > last);
  }

  committed() {
    return this.filter((entry) => entry.committed);
  }

  filter(keep) {
    return new Journal(this.entries.filter(keep));
  }

  [Symbol.iterator]() {
    return this.entries[Symbol.iterator]();
  }

  /** What a failed assertion of a test shows. */
  toString() {
    const lines = this.entries.map(({ number, operation, resource, status, code, committed }) =>
      [number, operation, resource, status ?? "no answer", code, committed && "committed"].filter(Boolean).join(" "),
    );
    return [`Journal of ${this.length} requests:`, ...lines].join("\n  ");
  }
}

function entry(json) {
  return Object.freeze({ ...json, at: new Date(json.at), status: json.status ?? null });
}

module.exports = { Journal, entry };
