import { appendFile, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openRelease } from '../../agent-protocol/release-manifest.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { licencesText, smallRelease } from '../harness/small-release.ts';
import type { SmallRelease } from '../harness/small-release.ts';
import { until } from '../harness/until.ts';

const content = 'the agent of a small machine';
let release: SmallRelease;
let world: ApiWorld;
/** Parts of lines that the test expects in the log at level error. */
let expected: string[];

beforeEach(async () => {
  expected = [];
  release = await smallRelease('1.2.3', { 'linux-x64': content, 'linux-arm64': 'another' });
  world = await startApi({ config: { agentRelease: release.folder, publicUrl: 'https://setpoint.test' } });
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  await release[Symbol.asyncDispose]();
  expect(world.faults.filter((line) => !expected.some((part) => line.includes(part)))).toEqual([]);
});

const get = (path: string, init: RequestInit = {}) => fetch(`${world.url}${path}`, init);
const file = '/agent/setpoint-agent-1.2.3-linux-x64';

describe('the release of the agent', () => {
  it('is served as it was signed, without a login', async () => {
    const answer = await get('/agent/manifest');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(openRelease(await answer.json(), 'any')).toEqual(release.manifest);
  });

  it('has its executables at the names of the manifest', async () => {
    const answer = await get(file);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-length')).toBe(String(content.length));
    expect(answer.headers.get('content-type')).toBe('application/octet-stream');
    expect(answer.headers.get('etag')).toBe(`"${release.manifest.files[0]?.sha256}"`);
    expect(answer.headers.get('x-service-version')).toBe('1.2.3');
    expect(await answer.text()).toBe(content);
    const head = await get(file, { method: 'HEAD' });
    expect(head.headers.get('content-length')).toBe(String(content.length));
    expect(await head.text()).toBe('');
  });

  it('has the licences of what is in it', async () => {
    const answer = await get('/agent/setpoint-agent-1.2.3-LICENSES');
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(licencesText);
  });

  it('has a gzip of them for those who take it, unless a part is asked for', async () => {
    const path = join(release.folder, 'setpoint-agent-1.2.3-linux-x64.gz');
    await writeFile(path, gzipSync(content));
    const asGzip = { headers: { 'accept-encoding': 'gzip' } };
    const packed = await get(file, asGzip);
    expect(packed.headers.get('content-encoding')).toBe('gzip');
    expect(packed.headers.get('vary')).toBe('accept-encoding');
    expect(await packed.text()).toBe(content); // fetch unpacks it
    for (const headers of [
      { 'accept-encoding': 'identity' },
      { 'accept-encoding': 'br, gzip;q=0' },
      { 'accept-encoding': 'gzip', range: 'bytes=0-' },
    ]) {
      const plain = await get(file, { headers });
      expect(plain.headers.get('content-encoding')).toBe(null);
      expect(await plain.text()).toBe(content);
    }
    expected = ['as gzip'];
    for (const other of [gzipSync('another agent'), gzipSync(content.repeat(100_000)), Buffer.from(content)]) {
      await writeFile(path, other);
      expect((await get(file, asGzip)).status).toBe(503);
    }
    expected.push('incorrect header check');
    expect(world.faults).toHaveLength(3);
  });

  it.each([
    ['bytes=4-8', 206, content.slice(4, 9), `bytes 4-8/${content.length}`],
    ['bytes=10-', 206, content.slice(10), `bytes 10-${content.length - 1}/${content.length}`],
    ['bytes=10-9999', 206, content.slice(10), `bytes 10-${content.length - 1}/${content.length}`],
    ['bytes=9999-', 416, '', `bytes */${content.length}`],
    ['bytes=-5', 200, content, null],
    ['bytes=8-4', 200, content, null],
    ['bytes=1-2,4-5', 200, content, null],
  ])('continues a download: %s', async (range, status, body, shown) => {
    const answer = await get(file, { headers: { range } });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-range')).toBe(shown);
    expect(await answer.text()).toBe(body);
  });

  it('continues no download of another file', async () => {
    const other = await get(file, { headers: { range: 'bytes=4-8', 'if-range': '"of another release"' } });
    expect(other.status).toBe(200);
    expect(await other.text()).toBe(content);
    const { etag } = Object.fromEntries(other.headers);
    const same = await get(file, { headers: { range: 'bytes=4-8', 'if-range': etag ?? '' } });
    expect(await same.text()).toBe(content.slice(4, 9));
  });

  it.each([
    '/agent/manifest.json',
    '/agent/',
    '/agent',
    '/agent/setpoint-agent-1.2.2-linux-x64',
    '/agent/setpoint-agent-1.2.3-linux-x64/',
    '/agent/setpoint-agent-..%2f..%2fetc%2fpasswd',
    '/agent/setpoint-agent-1.2.3-linux-x64%00',
  ])('has no other file: %s', async (path) => {
    const answer = await get(path);
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ success: false, error: { code: 'NOT_FOUND' } });
  });

  it('is not read by a path that climbs out of its folder', async () => {
    // as it is sent: a client such as fetch would resolve the path by itself
    const socket = connect(Number(new URL(world.url).port), '127.0.0.1');
    socket.end('GET /agent/setpoint-agent-/../manifest.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n');
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 404 /);
  });

  it('says which release there is to one who asks for another', async () => {
    const { error } = (await (await get('/agent/setpoint-agent-1.2.2-linux-x64')).json()) as { error: object };
    expect(error).toMatchObject({ message: expect.stringContaining('the agent 1.2.3 for linux-x64, linux-arm64') });
  });

  it('follows its folder without a restart', async () => {
    await release.publish('1.3.0', { 'linux-x64': 'a later agent' });
    expect((await get(file)).status).toBe(404);
    expect(await (await get('/agent/setpoint-agent-1.3.0-linux-x64')).text()).toBe('a later agent');
    expect(await (await get('/install.sh')).text()).toContain("version='1.3.0'");
  });

  it('is not served with other bytes than it was signed with', async () => {
    expected = ['is not the file of the manifest'];
    const path = join(release.folder, 'setpoint-agent-1.2.3-linux-x64');
    await writeFile(path, content.replace('small', 'large'));
    const changed = await get(file);
    expect(changed.status).toBe(503);
    expect(changed.headers.get('retry-after')).toBe('60');
    expect(await changed.text()).not.toContain('large');
    await writeFile(path, content);
    expect(await (await get(file)).text()).toBe(content);
    await appendFile(path, '.'); // after it was compared
    expect((await get(file)).status).toBe(503);
    expect((await get('/agent/setpoint-agent-1.2.3-linux-arm64')).status).toBe(200);
    expect(world.faults).toHaveLength(2);
  });

  it('is not served with a manifest that was changed', async () => {
    expected = ['signature is wrong', 'cannot be served'];
    const path = join(release.folder, 'manifest.json');
    await writeFile(path, (await readFile(path, 'utf8')).replace('0.1.0', '0.0.1'));
    for (const page of ['/agent/manifest', '/install.sh', file]) expect((await get(page)).status).toBe(503);
    const owner = await world.owner();
    const made = await owner.post('/servers', { name: 'one' });
    expect(made.status).toBe(201);
    expect(made.data.install_command).toContain('setpoint agent --server');
  });

  it('is served to a bounded number of clients at once', async () => {
    const large = 'x'.repeat(8 * 1024 * 1024);
    await release.publish('2.0.0', { 'linux-x64': large });
    const path = '/agent/setpoint-agent-2.0.0-linux-x64';
    const stop = new AbortController();
    // none of them reads its answer: what is sent stays in the buffers of the connections
    const held = await Promise.all(Array.from({ length: 16 }, () => get(path, { signal: stop.signal })));
    expect(held.map(({ status }) => status)).toEqual(Array(16).fill(200));
    const refused = await get(path);
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe('30');
    stop.abort();
    await until('there is room again', async () => (await get(path, { method: 'HEAD' })).status === 200);
  });
});

describe('the script that installs the agent', () => {
  it('has the checksums of the release and the address of the control plane in it', async () => {
    const answer = await get('/install.sh');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/x-shellscript; charset=utf-8');
    const script = await answer.text();
    expect(script).toMatch(/^#!\/bin\/sh\nset -eu\nversion='1\.2\.3'\nbase_url='https:\/\/setpoint\.test'\n/);
    for (const { platform, size, sha256, name } of release.manifest.files)
      expect(script).toContain(`${platform} ${size} ${sha256} ${name}`);
    expect(script).toContain('\nExecStart=/opt/setpoint-agent/supervise\n');
    expect(script).toMatch(/\nmain "\$@"\n$/);
  });

  it('is what a new server is told to run, with its token beside the arguments', async () => {
    const owner = await world.owner();
    const { id, join_token: token, install_command: command } = (await owner.post('/servers', { name: 'one' })).data;
    expect(command).toBe(
      `curl -fsSL https://setpoint.test/install.sh | SETPOINT_JOIN_TOKEN=${token} sh -s -- --server https://setpoint.test/default`,
    );
    const renewed = (await owner.post(`/servers/${id}/join-token`)).data;
    expect(renewed.install_warnings).toEqual([]);
    expect(renewed.install_command).toContain(`SETPOINT_JOIN_TOKEN=${renewed.join_token} sh`);
  });

  it('is not there without a release, and the command is that of a checkout', async () => {
    await rm(join(release.folder, 'manifest.json'));
    const answer = await get('/install.sh');
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ error: { message: expect.stringContaining('make release') } });
    const owner = await world.owner();
    const { join_token: token, install_command: command } = (await owner.post('/servers', { name: 'one' })).data;
    expect(command).toBe(`SETPOINT_JOIN_TOKEN=${token} setpoint agent --server https://setpoint.test/default`);
  });
});
