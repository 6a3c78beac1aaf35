// The workload of tests. Listens on $PORT (8080), answers with its environment and obeys requests:
//   /            200, JSON {host, env, requests, via}; an upgrade gets a WebSocket that sends back its bytes
//   /env/<NAME>  the variable's value, 404 when it is not set
//   /healthz     200, or what /health/<status> set
//   /count       200, the next number: it counts in the file of COUNT_FILE
//   /health/<status>   /exit/<code>   /hang (never answers)   /slow/<ms>
//   /log/<text>, /error/<text>, /burst/<lines>   lines on stdout or stderr
//   /read (answers once it has read the whole body)
//   /to/<host:port>/<path>   the answer of another service, which is asked until it answers with 200
// Environment: HEALTH is the first status of /healthz, EXIT_AFTER_MS and EXIT_CODE end it by itself, LISTEN_AFTER_MS delays
// it, GREETING is its first line, IGNORE_SIGTERM keeps it from stopping when asked, HASTY makes it do so in the middle of
// its answers.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, request as ask } from 'node:http';
import { hostname } from 'node:os';

const { env } = process;
let health = Number(env.HEALTH ?? 200);
let requests = 0;

console.log(env.GREETING ?? `listening on ${env.PORT ?? 8080}`);
if (env.EXIT_AFTER_MS) setTimeout(() => process.exit(Number(env.EXIT_CODE ?? 0)), Number(env.EXIT_AFTER_MS));

const server = createServer((request, response) => {
  requests += 1;
  const [, verb = '', argument = '', rest = ''] = decodeURIComponent(request.url).split('/');
  const answer = (status, body = '') => response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  switch (verb) {
    case 'env':
      return env[argument] === undefined ? answer(404) : answer(200, env[argument]);
    case 'healthz':
      return answer(health);
    case 'health':
      health = Number(argument);
      return answer(200);
    case 'exit':
      response.end();
      return void setTimeout(() => process.exit(Number(argument)), 20);
    case 'count':
      return answer(200, String(count(env.COUNT_FILE)));
    case 'hang':
      return undefined;
    case 'slow':
      return void setTimeout(() => answer(200), Number(argument));
    case 'read':
      return void request.resume().on('end', () => answer(200));
    case 'to':
      return pass(`http://${argument}/${rest}`, response);
    case 'log':
      console.log(argument);
      return answer(200);
    case 'error':
      console.error(argument);
      return answer(200);
    case 'burst':
      for (let n = 0; n < Number(argument); n++) console.log(`line ${n}`);
      return answer(200);
    default:
      return answer(200, JSON.stringify({ host: hostname(), env, requests, via: request.headers.via }));
  }
});
server.on('upgrade', (request, socket) => {
  socket.on('error', () => socket.destroy());
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
  socket.pipe(socket);
});
setTimeout(() => server.listen(Number(env.PORT ?? 8080), '0.0.0.0'), Number(env.LISTEN_AFTER_MS ?? 0));

process.on('SIGTERM', () => {
  if (env.IGNORE_SIGTERM) return;
  if (env.HASTY) process.exit(0);
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});

/** Asks another service until it answers, or the client has gone. */
function pass(url, response) {
  if (response.closed) return;
  const again = () => setTimeout(() => pass(url, response), 50);
  const outgoing = ask(url, { agent: false, timeout: 5000 }, (answer) => {
    let body = '';
    answer.on('data', (part) => (body += part));
    answer.on('end', () => (answer.statusCode === 200 ? response.writeHead(200).end(body) : again()));
    answer.on('error', again);
  });
  outgoing.on('timeout', () => outgoing.destroy(new Error('No answer in time')));
  outgoing.on('error', again);
  outgoing.end();
}

function count(file) {
  let number = 0;
  try {
    number = Number(readFileSync(file, 'utf8'));
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  writeFileSync(`${file}.new`, String(number + 1));
  renameSync(`${file}.new`, file);
  return number + 1;
}
