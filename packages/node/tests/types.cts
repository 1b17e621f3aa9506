// What the declarations say, for `require`; compiled and never run.

import server = require("rowkey-server");

export async function uses(): Promise<string> {
  const started: server.Server = await server.startServer();
  await started.close();
  return started.connectionString;
}
