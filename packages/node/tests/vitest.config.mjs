// Other files here are for other test runners.
export default { test: { include: ["orders.vitest.mjs"] } };
