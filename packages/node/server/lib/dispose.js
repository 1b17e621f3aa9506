"use strict";

// `await using` of TypeScript and of newer versions of Node.js. Older ones lack the symbol; compiled code then looks for this
// one.

const asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

module.exports = { asyncDispose };
