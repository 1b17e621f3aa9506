"use strict";

// Requests to the control port, on `node:http` alone: `fetch` is missing in some environments of test runners, and is often
// replaced by tests.

const http = require("node:http");
const { ControlError, ServerError, WaitTimeoutError } = require("./errors.js");

/** The control port of one server. */
class Control {
  /** `timeout` is for a server that is gone, in milliseconds. */
  constructor(url, token, timeout = 30_000) {
    this.url = url.replace(/\/$/, "");
    /** What the server wants to see in each request, if it has a token. */
    this.token = token;
    this.timeout = timeout;
  }

  /**
   * Sends JSON and returns the JSON of the answer, which is empty if there is none. `waits` is how long the server may wait
   * itself before it answers.
   */
  async send(method, path, body, query, waits) {
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const answer = await this.sendBytes(method, path, content, "application/json", query, waits);
    return answer.length > 0 ? JSON.parse(answer.toString()) : {};
  }

  /** Sends bytes and returns those of the answer. */
  sendBytes(method, path, body, contentType = "application/octet-stream", query = {}, waits = 0) {
    const url = new URL(this.url + path);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers = body === undefined ? {} : { "content-type": contentType, "content-length": body.length };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    return new Promise((resolve, reject) => {
      // Each request has a connection of its own, so none keeps the process alive.
      const timeout = this.timeout + waits;
      const request = http.request(url, { method, headers, agent: false, timeout }, (response) => {
        const parts = [];
        response.on("data", (part) => parts.push(part));
        response.on("error", (error) => reject(this.#gone(method, path, error)));
        response.on("end", () => {
          const content = Buffer.concat(parts);
          if (response.statusCode >= 400) reject(problem(response, content));
          else resolve(content);
        });
      });
      request.on("timeout", () => request.destroy(new Error(`nothing for ${timeout} ms`)));
      request.on("error", (error) => reject(this.#gone(method, path, error)));
      request.end(body);
    });
  }

  #gone(method, path, error) {
    const message = `${method} ${this.url}${path}: the server does not answer (${error.message}); has it been closed?`;
    return new ServerError(message, { cause: error });
  }
}

function problem(response, content) {
  let [title, detail] = [response.statusMessage, content.toString()];
  try {
    const parsed = JSON.parse(detail);
    [title, detail] = [parsed.title ?? title, parsed.detail ?? ""];
  } catch {
    // It is not the server that answered; its text is all there is.
  }
  const kind = response.statusCode === 408 ? WaitTimeoutError : ControlError;
  return new kind(response.statusCode, title, detail);
}

module.exports = { Control };
