// The workload of tests. Listens on $PORT (8080), answers with its environment and obeys requests:
//   /            200, JSON {host, env, requests}
//   /env/<NAME>  the variable's value, 404 when it is not set
//   /healthz     200, or what /health/<status> set
//   /health/<status>   /exit/<code>   /hang (never answers)   /slow/<ms>
//   /log/<text>, /error/<text>, /burst/<lines>   lines on stdout or stderr
// Environment: EXIT_AFTER_MS and EXIT_CODE end it by itself, LISTEN_AFTER_MS delays it, GREETING is its first line,
// IGNORE_SIGTERM keeps it from stopping when asked.
import { createServer } from 'node:http';
import { hostname } from 'node:os';

const { env } = process;
let health = 200;
let requests = 0;

console.log(env.GREETING ?? `listening on ${env.PORT ?? 8080}`);
if (env.EXIT_AFTER_MS) setTimeout(() => process.exit(Number(env.EXIT_CODE ?? 0)), Number(env.EXIT_AFTER_MS));

const server = createServer((request, response) => {
  requests += 1;
  const [, verb = '', argument = ''] = decodeURIComponent(request.url).split('/');
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
    case 'hang':
      return undefined;
    case 'slow':
      return void setTimeout(() => answer(200), Number(argument));
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
      return answer(200, JSON.stringify({ host: hostname(), env, requests }));
  }
});
setTimeout(() => server.listen(Number(env.PORT ?? 8080), '0.0.0.0'), Number(env.LISTEN_AFTER_MS ?? 0));

process.on('SIGTERM', () => {
  if (env.IGNORE_SIGTERM) return;
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
