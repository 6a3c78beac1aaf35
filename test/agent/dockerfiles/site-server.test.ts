import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { siteLines } from '../../../agent/dockerfiles/site-server.ts';
import { freePort } from '../../harness/program.ts';
import { until } from '../../harness/until.ts';

const kept = 'public, max-age=31536000, immutable';
const page = `<title>Start</title>${'<p>Hello</p>'.repeat(200)}`;
const files = {
  'index.html': page,
  'about.html': 'About',
  'docs/index.html': 'Docs',
  'assets/app.js': 'let a;'.repeat(400),
  'main.0123abcd.js': 'let b;',
  'main.js': 'let c;',
  '.env': 'SECRET=1',
  '.git/config': '[core]',
  'docs/.htaccess': 'x',
  '.well-known/security.txt': 'Contact',
};

interface Answer {
  status: number | undefined;
  headers: IncomingHttpHeaders;
  body: string;
  bytes: Buffer;
}
/** The path is sent as it is. */
type Ask = (path: string, headers?: Readonly<Record<string, string>>) => Promise<Answer>;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

/** Runs the web server as the last stage of a generated Dockerfile sets it up; asks it for a path. */
async function site(there: Readonly<Record<string, string>>): Promise<Ask> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-site-'));
  stack.defer(() => rm(folder, { recursive: true }));
  for (const [name, content] of Object.entries(there)) {
    const path = join(folder, 'srv', name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }
  const text = siteLines({ copy: '.', hashed: ['/assets/*'], port: 8080 }).join('\n');
  const step = /^RUN (mkdir .*?Caddyfile)$/ms.exec(text)?.[1];
  if (step === undefined) throw new Error(`No step writes the settings:\n${text}`);
  await promisify(execFile)('sh', ['-c', step.replaceAll('/etc/caddy', folder)]);
  const settings = join(folder, 'Caddyfile');
  await writeFile(settings, (await readFile(settings, 'utf8')).replace('root * /srv', `root * ${folder}/srv`));
  const port = await freePort();
  const env = { PATH: process.env['PATH'], HOME: folder, PORT: String(port) };
  const caddy = spawn('caddy', ['run', '--config', settings, '--adapter', 'caddyfile'], { env, stdio: 'ignore' });
  const exited = once(caddy, 'exit');
  stack.defer(async () => {
    caddy.kill();
    await exited;
  });
  const ask: Ask = async (path, headers = {}) => {
    const outgoing = request({ host: '127.0.0.1', port, path, headers, agent: false }).end();
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage]; // what the event has
    const bytes = await buffer(answer);
    return { status: answer.statusCode, headers: answer.headers, body: bytes.toString(), bytes };
  };
  await until('the web server answers', () => ask('/'));
  return ask;
}

describe('a site', () => {
  test.each<[string, (body: Buffer) => Buffer]>([
    ['gzip', gunzipSync],
    ['zstd', zstdDecompressSync],
  ])('is compressed for who takes %s', async (encoding, unpacked) => {
    const ask = await site(files);
    const answer = await ask('/', { 'accept-encoding': encoding });
    expect(answer.headers).toMatchObject({ 'content-encoding': encoding, vary: 'Accept-Encoding' });
    expect(Buffer.byteLength(page)).toBeGreaterThan(Number(answer.headers['content-length'] ?? 0));
    expect(unpacked(answer.bytes).toString()).toBe(page);
    expect((await ask('/')).headers).not.toHaveProperty('content-encoding');
  });

  test('keeps for good what has a hash in its name, and nothing else', async () => {
    const ask = await site(files);
    const caching = async (path: string) => (await ask(path)).headers['cache-control'];
    expect(await Promise.all(['/assets/app.js', '/main.0123abcd.js'].map(caching))).toEqual([kept, kept]);
    const others = await Promise.all(['/', '/main.js', '/about', '/route', '/none.js', '/.env'].map(caching));
    expect(new Set(others)).toEqual(new Set(['no-cache']));
  });

  test('does not keep for good what is not there', async () => {
    const ask = await site(files);
    for (const path of ['/assets/gone.js', '/gone.0123abcd.js'])
      expect(await ask(path)).toMatchObject({ status: 404, headers: { 'cache-control': 'no-cache' } });
  });

  test('answers a file that did not change without it', async () => {
    const ask = await site(files);
    const { headers } = await ask('/main.js');
    expect(await ask('/main.js', { 'if-none-match': headers.etag ?? '' })).toMatchObject({ status: 304, body: '' });
  });

  test.each([
    ['/route', page],
    ['/some/deep/route', page],
    ['/route?a=1.js', page],
    ['/../Caddyfile', page],
    ['/about', 'About'],
    ['/about.html', 'About'],
    ['/docs/', 'Docs'],
    ['/.well-known/security.txt', 'Contact'],
  ])('has for %s what belongs there', async (path, body) => {
    expect(await (await site(files))(path)).toMatchObject({ status: 200, body });
  });

  test.each([
    '/.env',
    '/.git/config',
    '/docs/.htaccess',
    '/%2eenv',
    '/docs/..%2f.env',
    '/.well-known/../.env',
    '/none.js',
  ])('has nothing for %s', async (path) => {
    const { status, body } = await (await site(files))(path);
    expect([status, body]).toEqual([404, '404 Not Found']);
  });

  test('names neither the web server nor its version', async () => {
    const { headers } = await (await site(files))('/');
    expect(headers).not.toHaveProperty('server');
    expect(headers['x-content-type-options']).toBe('nosniff');
  });

  test('with a 404.html has that for each path that is no file', async () => {
    const ask = await site({ ...files, '404.html': 'Not here' });
    for (const path of ['/route', '/none.js', '/.env', '/assets/gone.js'])
      expect(await ask(path)).toMatchObject({
        status: 404,
        body: 'Not here',
        headers: { 'cache-control': 'no-cache' },
      });
    expect(await ask('/')).toMatchObject({ status: 200, body: page });
    expect(await ask('/about')).toMatchObject({ status: 200, body: 'About' });
  });
});
