"use strict";

// Azure Table, Queue and Blob storage for tests: the program `rowkey-server`, started and controlled from JavaScript.
// `index.d.ts` describes all of it.

const errors = require("./lib/errors.js");
const { Fault, Injected } = require("./lib/fault.js");
const { Journal } = require("./lib/journal.js");
const { findProgram } = require("./lib/program.js");
const { Server, startServer } = require("./lib/server.js");

module.exports.ControlError = errors.ControlError;
module.exports.ServerError = errors.ServerError;
module.exports.StartError = errors.StartError;
module.exports.WaitTimeoutError = errors.WaitTimeoutError;
module.exports.Fault = Fault;
module.exports.Injected = Injected;
module.exports.Journal = Journal;
module.exports.Server = Server;
module.exports.findProgram = findProgram;
module.exports.startServer = startServer;
