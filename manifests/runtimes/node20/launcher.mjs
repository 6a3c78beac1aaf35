// Answers HTTP with the handler of a function. With --check it only loads the handler.
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const isCheck = process.argv.includes('--check');
const { default: handler } = await import('./handler.mjs').catch((error) => {
  if (!isCheck || !hasRun(error)) throw error;
  console.error(error);
  console.error(
    'The build has no variables of the function: its first instance shows whether its code loads with them',
  );
  process.exit(0);
});
if (typeof handler !== 'function') {
  console.error(
    'The code must export its handler: export default (request) => new Response("Hello"). Its default export is no function',
  );
  process.exit(1);
}
if (isCheck) process.exit(0);

/** Whether code has thrown it, unlike what is wrong with the code itself or with a package. */
function hasRun(error) {
  const lines = error instanceof Error ? String(error.stack).split('\n') : ['at file:'];
  return lines.some((line) => /^ *at .*file:/.test(line) && !line.includes('launcher.mjs'));
}

process.on('unhandledRejection', (error) => console.error(error));

async function answer(incoming, outgoing) {
  const gone = new AbortController();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) gone.abort(new Error('Who called went away'));
  });
  try {
    const hasBody = incoming.method !== 'GET' && incoming.method !== 'HEAD';
    const headers = Object.entries(incoming.headersDistinct).flatMap(([name, values]) =>
      values.map((value) => [name, value]),
    );
    const request = new Request(`http://${incoming.headers.host ?? 'localhost'}${incoming.url}`, {
      method: incoming.method,
      headers,
      signal: gone.signal,
      ...(hasBody && { body: Readable.toWeb(incoming), duplex: 'half' }),
    });
    const response = await handler(request);
    if (!(response instanceof Response)) throw new TypeError('The handler must return a Response');
    const sent = Object.fromEntries(response.headers);
    const cookies = response.headers.getSetCookie();
    outgoing.writeHead(response.status, { ...sent, ...(cookies.length > 0 && { 'set-cookie': cookies }) });
    if (response.body === null) outgoing.end();
    else await pipeline(Readable.fromWeb(response.body), outgoing);
  } catch (error) {
    if (gone.signal.aborted) return;
    console.error(error);
    if (outgoing.headersSent) outgoing.destroy();
    else outgoing.writeHead(500, { 'content-type': 'text/plain' }).end('The function failed: see its log\n');
  }
}

const server = createServer({ requestTimeout: 0, keepAliveTimeout: 0 }, answer);
server.listen(Number(process.env['SETPOINT_PORT'] ?? 8080), '0.0.0.0');
process.on('SIGTERM', () => process.exit(0));
