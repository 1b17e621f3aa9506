// The same for `import`.
import server from "./index.js";

export const {
  ControlError,
  Fault,
  Injected,
  Journal,
  Server,
  ServerError,
  StartError,
  WaitTimeoutError,
  findProgram,
  startServer,
} = server;
