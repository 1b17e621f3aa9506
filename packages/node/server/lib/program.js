"use strict";

// The program: where it is, how it is started, and how it ends.

const { spawn } = require("node:child_process");
const { StartError } = require("./errors.js");

/** The processors and systems that there is a package for. */
const PACKAGES = Object.keys(require("../package.json").optionalDependencies);
/**
 * Accounts of the machine would not be the one that the ready line names, and the control port is chosen here. The token is
 * passed on as what `controlToken` returns.
 */
const NOT_PASSED_ON = ["AZURITE_ACCOUNTS", "ROWKEY_CONTROL_PORT", "ROWKEY_CONTROL_TOKEN"];
/** What the ready line has in each version. */
const READY = ["connectionString", "table", "queue", "blob"];
/** How many lines of the program's log an error shows. */
const SHOWN_LINES = 40;

function findProgram() {
  if (process.env.ROWKEY_SERVER) return process.env.ROWKEY_SERVER;
  const name = `@rowkey/server-${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "rowkey-server.exe" : "rowkey-server";
  if (!PACKAGES.includes(name)) {
    throw new StartError(
      `there is no program for ${process.platform} on ${process.arch}; build one (cargo install rowkey-server) and name it ` +
        "in the variable ROWKEY_SERVER",
    );
  }
  try {
    return require.resolve(`${name}/bin/${file}`);
  } catch (error) {
    throw new StartError(
      `the package ${name}, which has the program, is not installed. It is an optional dependency of rowkey-server: install ` +
        "again without --omit=optional (or --no-optional), and on the system that runs the tests; or name a program in the " +
        "variable ROWKEY_SERVER",
      { cause: error },
    );
  }
}

/** The token of the control port: that of the flags, or of the variable `ROWKEY_CONTROL_TOKEN`. */
function controlToken(flags) {
  let token = process.env.ROWKEY_CONTROL_TOKEN;
  for (const [at, flag] of flags.entries()) {
    if (flag === "--control-token") token = flags[at + 1];
    else if (flag.startsWith("--control-token=")) token = flag.slice("--control-token=".length);
  }
  return token || undefined;
}

/** A running program. It ends with this process, however that ends, because its standard input is then closed. */
class Program {
  #child;
  #path;
  #log = [];
  #ended;

  constructor(path, flags, token) {
    this.#path = path;
    const env = { ...process.env };
    for (const name of NOT_PASSED_ON) delete env[name];
    if (token) env.ROWKEY_CONTROL_TOKEN = token;
    this.#child = spawn(path, ["--end-with-stdin", ...flags], { env, stdio: "pipe", windowsHide: true });
    this.#ended = new Promise((resolve) => {
      // `close` comes when the log has been read, too.
      this.#child.once("close", (code, signal) => resolve({ code, signal }));
      this.#child.once("error", (error) => resolve({ error }));
    });
    let rest = "";
    this.#child.stderr.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      this.#log = [...this.#log, ...lines].slice(-SHOWN_LINES);
    });
    // A program that has ended closes the pipe.
    this.#child.stdin.on("error", () => {});
  }

  /** The last lines that the program logged. */
  log() {
    return this.#log.join("\n");
  }

  /** Waits for the line of JSON that the program prints when it is ready. */
  async ready(timeout) {
    let timer;
    const late = new Promise((resolve) => {
      timer = setTimeout(() => resolve({ late: true }), timeout);
    });
    try {
      const first = await Promise.race([this.#line(), this.#ended, late]);
      if (first.error) throw new StartError(`cannot start ${this.#path}: ${first.error.message}`, { cause: first.error });
      if (first.late) throw new StartError(this.#message(`${this.#path} was not ready after ${timeout} ms`));
      if (first.line === undefined) {
        throw new StartError(this.#message(`${this.#path} ended with the code ${first.code} before it was ready`));
      }
      const ready = parsed(first.line);
      // The line itself is not shown, because it may have keys.
      if (!READY.every((name) => typeof ready?.[name] === "string")) {
        throw new StartError(this.#message(`${this.#path} did not print the line of a rowkey-server that is ready`));
      }
      if (typeof ready.control !== "string") {
        throw new StartError(`${this.#path} has no control port; it is of an older version than this package`);
      }
      this.#letGo();
      return ready;
    } catch (error) {
      await this.close();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the program and waits until it has ended. */
  async close() {
    this.#child.stdin.destroy();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 5_000);
    await this.#ended;
    clearTimeout(timer);
  }

  #line() {
    return new Promise((resolve) => {
      let text = "";
      this.#child.stdout.setEncoding("utf8").on("data", (part) => {
        text += part;
        const end = text.indexOf("\n");
        if (end >= 0) resolve({ line: text.slice(0, end) });
      });
    });
  }

  /** A test that forgets to close the server still ends. */
  #letGo() {
    this.#child.unref();
    for (const pipe of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) pipe.unref?.();
  }

  #message(what) {
    return `${what}; it logged:\n${this.log() || "(nothing)"}`;
  }
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

module.exports = { Program, controlToken, findProgram };
