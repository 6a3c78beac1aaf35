#!/usr/bin/env node
// Runs the document database inside PostgreSQL, and speaks the protocol of MongoDB in front of it. Its users may do all.
// Usage: document-server CLUSTER
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from './command-error.mjs';
import { carryOut } from './commands.mjs';
import { Engine } from './engine.mjs';
import { Login } from './login.mjs';
import { answer, messages, question } from './wire.mjs';

const port = 27_017;
const mostConnections = 500;
const [cluster] = process.argv.slice(2);
let isEnding = false;

const postgres = spawn('postgres', ['-D', cluster], { stdio: ['ignore', 'inherit', 'inherit'] });
postgres.once('error', (error) => fail(error.message));
postgres.once('exit', (code, signal) => {
  if (!isEnding) fail(`PostgreSQL ended by itself: ${signal ?? code}`);
  console.log('Shutdown complete');
  process.exit(code ?? 1);
});

const sockets = new Set();
let created = 0;
const status = () => ({
  current: sockets.size,
  available: mostConnections - sockets.size,
  created,
  uptime: process.uptime(),
});

const engine = new Engine({ host: '/run/postgresql', user: 'document_server', database: 'postgres' });
const server = createServer((socket) => {
  socket.on('error', () => undefined); // its end says so
  sockets.add(socket);
  created += 1;
  socket.once('close', () => sockets.delete(socket));
  serve(socket).catch((error) => {
    console.error(`A connection is ended: ${error.message}`);
    socket.destroy();
  });
});
server.maxConnections = mostConnections;

for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, end);
await started();
if (!isEnding) server.listen(port, () => console.log('Waiting for connections'));

/** Answers the questions of a connection, in their order. */
async function serve(socket) {
  const login = new Login(engine);
  for await (const message of messages(socket)) {
    const asked = question(message);
    const document = await carryOut({ ...asked, engine, login, status }).catch(refusal);
    if (asked.isAnswered) socket.write(answer(asked, document));
  }
}

function refusal(error) {
  if (!(error instanceof CommandError)) console.error(error);
  const { code = 1, codeName = 'InternalError', message } = error;
  return { ok: 0, errmsg: message, code, codeName };
}

/** Resolves once the engine answers, or is asked to end: after a crash it recovers first. */
async function started() {
  for (;;) {
    const fault = await engine.rows('SELECT 1').then(
      () => undefined,
      (error) => error,
    );
    if (fault === undefined || isEnding) return;
    await delay(100);
  }
}

/** Ends connections, then the engine, which writes what it has in memory. */
function end() {
  isEnding = true;
  server.close();
  for (const socket of sockets) socket.destroy();
  postgres.kill('SIGINT');
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
