#!/usr/bin/env node
// Makes the packages for npm: `node packages/node/pack.mjs OUT linux-x64=PROGRAM darwin-arm64=PROGRAM ..`
//
// OUT gets `rowkey-server`, which has no program, and one package for each PROGRAM, named after its system and processor as
// Node.js names them. npm installs the one that fits.

import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const here = import.meta.dirname ?? new URL(".", import.meta.url).pathname;
const [out, ...programs] = process.argv.slice(2);
if (!out || programs.some((program) => !program.includes("="))) {
  console.error("usage: pack.mjs OUT SYSTEM-PROCESSOR=PROGRAM ..");
  process.exit(2);
}
mkdirSync(out, { recursive: true });

const server = JSON.parse(readFileSync(join(here, "server/package.json"), "utf8"));
const workspace = readFileSync(join(here, "../../Cargo.toml"), "utf8");
const version = /^\[workspace\.package\]\nversion = "(.*)"/m.exec(workspace)[1];
// Its address is in one file alone.
const repository = { type: "git", url: `git+${/^repository = "(.*)"/m.exec(workspace)[1]}.git` };
const named = [server.version, ...Object.values(server.optionalDependencies)];
if (named.some((one) => one !== version)) {
  console.error(`server/package.json names the versions ${named.join(", ")}; Cargo.toml has ${version}`);
  process.exit(1);
}

for (const program of programs) {
  const [target, path] = program.split(/=(.*)/);
  const name = `@rowkey/server-${target}`;
  if (!(name in server.optionalDependencies)) {
    console.error(`${name} is no optional dependency in server/package.json`);
    process.exit(1);
  }
  const [os, cpu] = target.split("-");
  const folder = temporary();
  const file = os === "win32" ? "rowkey-server.exe" : "rowkey-server";
  const manifest = {
    name,
    version,
    description: `The program of rowkey-server for ${os} on ${cpu}`,
    license: server.license,
    repository,
    os: [os],
    cpu: [cpu],
    files: ["bin"],
    // A program in an archive cannot be started.
    preferUnplugged: true,
  };
  write(folder, manifest);
  writeFileSync(join(folder, "README.md"), `# ${name}\n\nThe program of the package \`rowkey-server\` for ${os} on ${cpu}.\n`);
  for (const licence of ["LICENSE-APACHE", "LICENSE-MIT"]) copyFileSync(join(here, "server", licence), join(folder, licence));
  mkdirSync(join(folder, "bin"));
  copyFileSync(path, join(folder, "bin", file));
  chmodSync(join(folder, "bin", file), 0o755);
  pack(folder);
}
const folder = temporary();
cpSync(join(here, "server"), folder, { recursive: true });
write(folder, { ...server, repository });
pack(folder);

function temporary() {
  return mkdtempSync(join(tmpdir(), "rowkey-pack-"));
}

function write(folder, manifest) {
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}

function pack(folder) {
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const packed = execFileSync(npm, ["pack", folder, "--pack-destination", out, "--silent"], { encoding: "utf8" });
  console.log(join(out, packed.trim()));
  rmSync(folder, { recursive: true });
}
