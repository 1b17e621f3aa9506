"use strict";

// Errors of this package.

/** The server did not start, or refused what it was asked. */
class ServerError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** The program is missing, ended, or did not become ready. The message has what it logged. */
class StartError extends ServerError {}

/** The server refused a request to its control port. The message is the `detail` of the problem that it answered with. */
class ControlError extends ServerError {
  constructor(status, title, detail) {
    super(`${status} ${title}: ${detail}`);
    this.status = status;
    this.title = title;
    this.detail = detail;
  }
}

/** What was waited for did not happen in time. */
class WaitTimeoutError extends ControlError {}

module.exports = { ServerError, StartError, ControlError, WaitTimeoutError };
