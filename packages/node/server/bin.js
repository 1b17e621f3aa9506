#!/usr/bin/env node
"use strict";

// Runs the program: `npx rowkey-server --help`.

const { spawn } = require("node:child_process");
const { findProgram } = require("./index.js");

let path;
try {
  path = findProgram();
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`cannot start ${path}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code) => process.exit(code ?? 1));
