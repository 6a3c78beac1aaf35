/**
 * `node:http` for programs that run for long. An `import` of it reads all that it exports, and so loads the client
 * behind the global `WebSocket`, which takes 16 MB of resident memory and is not used.
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http');
/** The same over TLS. */
export const https = process.getBuiltinModule('node:https');
