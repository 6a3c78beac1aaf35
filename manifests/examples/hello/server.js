import { createServer } from 'node:http';
import { hostname } from 'node:os';

/** Change it, commit, deploy: the answer shows which revision serves. */
const revision = 1;
const greeting = process.env.GREETING ?? 'Hello';
const port = Number(process.env.PORT ?? 8080);

let stopping = false;

const server = createServer((request, response) => {
  const started = performance.now();
  const [status, body] = answer(request.method, request.url);
  response.on('finish', () => {
    const duration_ms = Math.round(performance.now() - started);
    log('info', 'Request answered', { method: request.method, path: request.url, status, duration_ms });
  });
  if (stopping) response.setHeader('connection', 'close');
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
});

/** @returns {[status: number, body: object]} */
function answer(method, url) {
  if (method !== 'GET' && method !== 'HEAD') return [405, { error: 'Only GET and HEAD are answered' }];
  if (url === '/healthz') return [200, { status: 'ok' }];
  if (url === '/') return [200, { message: `${greeting} from Setpoint`, hostname: hostname(), revision }];
  return [404, { error: 'There is nothing here' }];
}

function log(level, message, fields) {
  console.log(JSON.stringify({ time: new Date().toISOString(), level, message, ...fields }));
}

/** Answers what has been asked already, then leaves. */
function stop(signal) {
  if (stopping) return;
  stopping = true;
  log('info', 'Stopping', { signal });
  server.close(() => process.exit(0));
}

process.on('SIGTERM', stop);
process.on('SIGINT', stop);
server.listen(port, () => log('info', 'Listening', { port: server.address().port, revision }));
