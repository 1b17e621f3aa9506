// Credentials of @azure/identity get tokens from the server, and its services honour their roles.
//
// `tests/interop/run` starts a server of its own for these tests, with `--https --oauth issue` and
// `identities.json`, and names the file with its ready line in ROWKEY_ISSUER. Node trusts its certificate by
// NODE_EXTRA_CA_CERTS.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { test as run } from "node:test";

import { TableClient, TableServiceClient } from "@azure/data-tables";
import { ClientSecretCredential, DefaultAzureCredential, ManagedIdentityCredential } from "@azure/identity";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";

const ready = process.env.ROWKEY_ISSUER;
const issuer = ready ? JSON.parse(readFileSync(ready, "utf8")) : {};
const test = (what, body) => run(what, { skip: ready ? false : "no server that issues tokens" }, body);
const TENANT = "5f0c5b0e-52c3-4cd1-9c9b-3f1a1c1f2d10";
const STORAGE = "https://storage.azure.com/.default";
// Those of identities.json.
const WRITER = ["aaaaaaaa-0000-0000-0000-000000000001", "interop-writer"];
const READER = ["aaaaaaaa-0000-0000-0000-000000000002", "interop-reader"];
const SENDER = "aaaaaaaa-0000-0000-0000-000000000003";
const MANAGED_READER = "aaaaaaaa-0000-0000-0000-000000000004";
const options = { authorityHost: issuer.authority, disableInstanceDiscovery: true };

for (const variable of Object.keys(process.env)) {
  if (/^(AZURE|IDENTITY|MSI)_/.test(variable)) delete process.env[variable];
}

const secret = (identity) => new ClientSecretCredential(TENANT, ...identity, options);
const name = () => `t${randomUUID().replaceAll("-", "")}`;
const claims = (token) => JSON.parse(Buffer.from(token.split(".")[1], "base64url").toString());
const code = (error) => error.code ?? error.details?.odataError?.code;
const refused = (promise) =>
  assert.rejects(promise, (error) => {
    assert.equal(error.statusCode, 403);
    assert.match(`${code(error)} ${error.message}`, /AuthorizationPermissionMismatch/);
    return true;
  });

test("a client secret works with all three services", async () => {
  const [credential, of] = [secret(WRITER), name()];
  const table = new TableClient(issuer.table, of, credential);
  await table.createTable();
  await table.createEntity({ partitionKey: "p", rowKey: "r" });
  assert.equal((await table.getEntity("p", "r")).rowKey, "r");
  const queue = new QueueServiceClient(issuer.queue, credential).getQueueClient(of);
  await queue.create();
  await queue.sendMessage("hello");
  assert.equal((await queue.receiveMessages()).receivedMessageItems[0].messageText, "hello");
  const container = new BlobServiceClient(issuer.blob, credential).getContainerClient(of);
  await container.create();
  await container.getBlockBlobClient("a").upload("content", 7);
  assert.equal((await container.getBlobClient("a").downloadToBuffer()).toString(), "content");
});

test("a reader is refused what its roles do not permit", async () => {
  const of = name();
  const [writer, reader] = [secret(WRITER), secret(READER)];
  await new TableServiceClient(issuer.table, writer).createTable(of);
  const table = new TableClient(issuer.table, of, reader);
  await refused(table.createEntity({ partitionKey: "p", rowKey: "r" }));
  await refused(table.deleteTable());
  const queues = (credential) => new QueueServiceClient(issuer.queue, credential).getQueueClient(of);
  await queues(writer).create();
  await refused(queues(reader).sendMessage("x"));
  assert.equal((await queues(reader).peekMessages()).peekedMessageItems.length, 0);
  const containers = (credential) => new BlobServiceClient(issuer.blob, credential).getContainerClient(of);
  await containers(writer).create();
  await refused(containers(reader).getBlockBlobClient("a").upload("x", 1));
  await refused(containers(writer).getAccessPolicy());
});

test("a wrong secret is refused", async () => {
  const credential = secret([WRITER[0], "wrong"]);
  await assert.rejects(credential.getToken(STORAGE), /AADSTS7000215/);
});

test("managed identities of virtual machines and of App Service", async () => {
  process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST = issuer.authority;
  try {
    const token = await new ManagedIdentityCredential().getToken(STORAGE);
    assert.equal(claims(token.token).appid, SENDER);
    const named = new ManagedIdentityCredential({ clientId: MANAGED_READER });
    assert.equal(claims((await named.getToken(STORAGE)).token).appid, MANAGED_READER);
    const table = new TableServiceClient(issuer.table, named);
    await refused(table.createTable(name()));
  } finally {
    delete process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST;
  }
  process.env.IDENTITY_ENDPOINT = `${issuer.authority}/msi/token`;
  process.env.IDENTITY_HEADER = "any";
  try {
    const token = await new ManagedIdentityCredential().getToken(STORAGE);
    assert.equal(claims(token.token).appid, SENDER);
  } finally {
    delete process.env.IDENTITY_ENDPOINT;
    delete process.env.IDENTITY_HEADER;
  }
});

test("the default credential by variables", async () => {
  process.env.AZURE_TENANT_ID = TENANT;
  [process.env.AZURE_CLIENT_ID, process.env.AZURE_CLIENT_SECRET] = READER;
  try {
    const token = await new DefaultAzureCredential(options).getToken(STORAGE);
    assert.equal(claims(token.token).appid, READER[0]);
  } finally {
    for (const part of ["TENANT_ID", "CLIENT_ID", "CLIENT_SECRET"]) delete process.env[`AZURE_${part}`];
  }
});

test("a token expires by the clock of the server", async () => {
  // The last one: the clock of the server does not go back.
  const of = name();
  const table = new TableClient(issuer.table, of, secret(WRITER));
  await table.createTable();
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ seconds: 3601 });
  const moved = await fetch(`${issuer.control}/v1/clock/advance`, { method: "POST", headers, body });
  assert.equal(moved.status, 200);
  // The credential keeps its token, which has not expired by the clock of this machine.
  const entity = { partitionKey: "p", rowKey: "r" };
  await assert.rejects(table.createEntity(entity), (error) => error.statusCode === 401);
  await new TableClient(issuer.table, of, secret(WRITER)).createEntity(entity);
});
