"use strict";

// Requests to the control port, on `node:http` alone: `fetch` is missing in some environments of test runners, and is often
// replaced by tests.

const http = require("node:http");
const { ControlError, ServerError, WaitTimeoutError } = require("./errors.js");

/** The control port of one server. */
class Control {
  constructor(url, token) {
    this.url = url.replace(/\/$/, "");
    /** What the server wants to see in each request, if it has a token. */
    this.token = token;
  }

  /** Sends JSON and returns the JSON of the answer, which is empty if there is none. */
  async send(method, path, body, query) {
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const answer = await this.sendBytes(method, path, content, "application/json", query);
    return answer.length > 0 ? JSON.parse(answer.toString()) : {};
  }

  /** Sends bytes and returns those of the answer. */
  sendBytes(method, path, body, contentType = "application/octet-stream", query = {}) {
    const url = new URL(this.url + path);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers = body === undefined ? {} : { "content-type": contentType, "content-length": body.length };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    return new Promise((resolve, reject) => {
      // Each request has a connection of its own, so none keeps the process alive.
      const request = http.request(url, { method, headers, agent: false }, (response) => {
        const parts = [];
        response.on("data", (part) => parts.push(part));
        response.on("error", (error) => reject(this.#gone(method, path, error)));
        response.on("end", () => {
          const content = Buffer.concat(parts);
          if (response.statusCode >= 400) reject(problem(response, content));
          else resolve(content);
        });
      });
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
