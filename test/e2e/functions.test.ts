import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureRuntimeImage } from '../harness/runtime-images.ts';
import { longTag } from '../layer-report.ts';

const Called = z.object({
  execution: z.object({
    id: z.string(),
    status: z.string(),
    cold_start: z.boolean(),
    error: z.unknown(),
    log_preview: z.string().nullable(),
  }),
  answer: z.object({ status: z.int(), body: z.string().nullable() }).nullable(),
});
const Executions = z.array(
  z.object({
    id: z.string(),
    trigger: z.string(),
    status: z.string(),
    cold_start: z.boolean(),
    error: z.unknown(),
    log_preview: z.string().nullable(),
  }),
);

/** Source text that answers, from the API to a container of the engine and back. */
describe('a function', () => {
  let town: Installation;
  let id: string;
  let port: number;
  const base = (): string => `/api/v1/functions/${id}`;
  const handler = (word: string): string => `
    let calls = 0;
    export default async (request) => {
      const url = new URL(request.url);
      calls += 1;
      if (url.pathname === '/throw') throw new Error('boom');
      if (url.pathname === '/note') {
        const fs = await import('node:fs');
        if (request.method === 'POST') fs.writeFileSync('/data/note', await request.text());
        return new Response(fs.readFileSync('/data/note'));
      }
      if (url.pathname === '/never') return new Promise(() => {});
      if (url.pathname === '/fill') { const all = []; for (;;) all.push(Buffer.alloc(8e6, 1)); }
      console.log('called with ' + url.search);
      return Response.json({ word: '${word}', calls, method: request.method, path: url.pathname, text: await request.text(), secret: process.env.SECRET, uid: process.getuid() });
    };`;

  beforeAll(async () => {
    const image = await ensureRuntimeImage('node20');
    town = await Installation.start({ store: 'sqlite', serverFlags: ['--runtime-images', `node20=${image}`] });
    port = await freePort();
    const place = { project_id: town.project.id, server_id: town.server.id };
    const fields = {
      name: 'hello',
      runtime: 'node20',
      exposed_port: port,
      timeout_seconds: 2,
      env: { SECRET: 'a\nb' },
    };
    id = (await town.client.object('POST', '/api/v1/functions', { ...place, ...fields, code: handler('one') })).id;
  }, 300_000);
  afterAll(() => town[Symbol.asyncDispose]());

  const deploy = (): Promise<ApiObject> => town.client.object('POST', `${base()}/deploy?wait=100`, {});
  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${path}`, { ...init, headers: { connection: 'close' } });
  const executions = async (): Promise<z.infer<typeof Executions>> =>
    Executions.parse(await town.client.request('GET', `${base()}/executions`));

  it('answers requests once it is deployed, and has no container before the first one', async () => {
    expect(await deploy()).toMatchObject({ status: 'running' });
    expect(await instancesOf(id)).toEqual([]);
    const answer = await ask('/a?b=c', { method: 'POST', body: 'Hello' });
    expect([answer.status, await answer.json()]).toEqual([
      200,
      { word: 'one', calls: 1, method: 'POST', path: '/a', text: 'Hello', secret: 'a\nb', uid: 65532 },
    ]);
    const [container = ''] = await instancesOf(id);
    const settings = await docker('inspect', '--format', '{{json .HostConfig}}', container);
    expect(JSON.parse(settings)).toMatchObject({
      ReadonlyRootfs: true,
      CapDrop: expect.arrayContaining(['ALL']),
      PidsLimit: 256,
    });
    expect((await executions())[0]).toMatchObject({ trigger: 'http', status: 'succeeded', cold_start: true });
  });

  it('is called by the control plane in the same way', async () => {
    const called = Called.parse(await town.client.request('POST', `${base()}/invoke`, { body: 'Hi', path: '/x' }));
    expect(called.execution).toMatchObject({ status: 'succeeded', cold_start: false });
    expect(JSON.parse(called.answer?.body ?? '')).toMatchObject({ calls: 2, text: 'Hi', path: '/x' });
    const logs = z.object({ lines: z.array(z.object({ message: z.string() })) });
    const written = logs.parse(await town.client.request('GET', `${base()}/logs`));
    expect(written.lines.map(({ message }) => message)).toContain('called with ?b=c');
  });

  it('that throws, is late or fills its memory is answered for, and answers again', async () => {
    expect((await ask('/throw')).status).toBe(500);
    expect((await ask('/never')).status).toBe(504);
    expect((await ask('/fill')).status).toBe(502);
    expect((await ask('/')).status).toBe(200);
    const [, filled, late, thrown] = await executions();
    expect(thrown).toMatchObject({ status: 'failed', log_preview: expect.stringContaining('boom') });
    expect(late?.status).toBe('timed_out');
    expect(filled).toMatchObject({ status: 'failed', error: { code: 'out_of_memory' } });
  });

  it('is deployed anew without a request that fails, also to an earlier version', async () => {
    const words = new Set<string>();
    const outcomes: number[] = [];
    const isDone = new AbortController();
    const asking = (async () => {
      while (!isDone.signal.aborted) {
        const answer = await ask('/').catch(() => undefined);
        outcomes.push(answer?.status ?? 0);
        if (answer?.ok === true) words.add(z.object({ word: z.string() }).parse(await answer.json()).word);
      }
    })();
    await town.client.request('PUT', base(), { code: handler('two') });
    await deploy();
    await expect.poll(() => words.has('two'), { timeout: 20_000 }).toBe(true);
    const [, first] = await town.client.list(`${base()}/versions`);
    words.clear();
    await town.client.object('POST', `${base()}/versions/${first?.id}/deploy?wait=100`, {});
    await expect.poll(() => words.has('one'), { timeout: 20_000 }).toBe(true);
    isDone.abort();
    await asking;
    expect(outcomes.filter((status) => status !== 200)).toEqual([]);
  });

  it('keeps what it writes to a volume, with other instances and another version', async () => {
    const place = { project_id: town.project.id, server_id: town.server.id };
    const volume = await town.client.object('POST', '/api/v1/volumes?wait=60', { ...place, name: 'notes' });
    const bind = { workload_type: 'function', workload_id: id, mount_path: '/data' };
    await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind?wait=60`, bind);
    expect(await (await ask('/note', { method: 'POST', body: 'remembered' })).text()).toBe('remembered');
    const before = await instancesOf(id);
    await deploy();
    expect(await (await ask('/note')).text()).toBe('remembered');
    const former = async () => (await instancesOf(id)).filter((one) => before.includes(one));
    await expect.poll(former, { timeout: 20_000 }).toEqual([]);
    await town.client.request('POST', `/api/v1/volumes/${volume.id}/unbind?wait=60`, {});
    await expect.poll(async () => (await ask('/note')).status, { timeout: 20_000 }).toBe(500);
    await town.client.request('DELETE', `/api/v1/volumes/${volume.id}?wait=60`, undefined);
  });

  it('with wrong code fails at its build with the words of the runtime, and the version before serves on', async () => {
    await town.client.request('PUT', base(), { code: 'export default (request) => {' });
    const failed = await deploy();
    expect(failed.status).toBe('running');
    expect(failed.conditions?.find(({ type }) => type === 'Ready')?.reason).toBe('VersionFailed');
    const [version] = await town.client.list(`${base()}/versions`);
    expect(version).toMatchObject({ status: 'failed', error: { message: expect.stringContaining('SyntaxError') } });
    const log = await town.client.request('GET', `${base()}/versions/${version?.id}/logs`);
    expect(JSON.stringify(log)).toContain('SyntaxError');
    expect((await ask('/')).status).toBe(200);
  });

  it('that is built and does not start leaves the version before in its place', async () => {
    await town.client.request('PUT', base(), {
      code: `if (process.env.SECRET) throw new Error('no database');\n${handler('three')}`,
    });
    const refused = await deploy();
    expect(refused.status).toBe('running');
    const why = refused.conditions?.find(({ type }) => type === 'Ready');
    expect(why).toMatchObject({ reason: 'VersionFailed', message: expect.stringContaining('no database') });
    expect((await ask('/')).status).toBe(200);
  });

  it('that is stopped has neither a port nor a container', async () => {
    expect(await town.client.object('POST', `${base()}/stop?wait=60`, {})).toMatchObject({ status: 'stopped' });
    expect(await instancesOf(id)).toEqual([]);
    await expect(ask('/')).rejects.toThrow();
  });
});

/** By runtime: code that needs a variable when it is loaded, answers with what it was sent, by way of a file at `/note`, and throws at `/throw`, and code that is wrong with what is said of it. */
const runtimes = {
  bun: {
    code: `new URL(process.env.AT_LOAD!);
    export default async (request: Request): Promise<Response> => {
      const { pathname } = new URL(request.url);
      if (pathname === '/throw') throw new Error('boom');
      if (pathname === '/note') {
        await Bun.write('/data/note', await request.text());
        return new Response(Bun.file('/data/note'));
      }
      return new Response(request.method + await request.text());
    };`,
    wrong: 'export default (request: Request) => {',
    says: 'error',
  },
  deno: {
    code: `new URL(Deno.env.get('AT_LOAD')!);
    export default async (request: Request): Promise<Response> => {
      const { pathname } = new URL(request.url);
      if (pathname === '/throw') throw new Error('boom');
      if (pathname === '/note') {
        await Deno.writeTextFile('/data/note', await request.text());
        return new Response(await Deno.readTextFile('/data/note'));
      }
      return new Response(request.method + await request.text());
    };`,
    wrong: 'export default (request: Request) => {',
    says: 'error',
  },
  python3: {
    code: `import os
os.environ['AT_LOAD']
def handler(request):
    if request.path == '/throw':
        raise ValueError('boom')
    if request.path == '/note':
        with open('/data/note', 'w') as note:
            note.write(request.text)
        return open('/data/note').read()
    return request.method + request.text
`,
    wrong: 'def handler(request:\n',
    says: 'SyntaxError',
  },
  go: {
    code: `package main

import (
	"io"
	"net/http"
	"os"
)

var atLoad = os.Getenv("AT_LOAD")[:4]

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/throw" {
		panic("boom")
	}
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/note" {
		os.WriteFile("/data/note", body, 0o600)
		body, _ = os.ReadFile("/data/note")
		w.Write(body)
		return
	}
	w.Write(append([]byte(r.Method), body...))
}
`,
    wrong: 'package main\n\nfunc Handler() {}\n',
    says: 'handler.go',
  },
} as const;
const names = ['bun', 'deno', 'python3', 'go'] as const;

describe('the other runtimes', { tags: [longTag] }, () => {
  let town: Installation;

  beforeAll(async () => {
    const images: string[] = [];
    for (const name of names) images.push(`${name}=${await ensureRuntimeImage(name)}`);
    town = await Installation.start({ store: 'sqlite', serverFlags: ['--runtime-images', images.join(',')] });
  }, 600_000);
  afterAll(() => town[Symbol.asyncDispose]());

  it.each(names)(
    '%s answers, says what it threw, writes to a volume, and says what is wrong with its code',
    async (runtime) => {
      const { code, wrong, says } = runtimes[runtime];
      const fields = {
        project_id: town.project.id,
        server_id: town.server.id,
        name: runtime,
        runtime,
        code,
        env: { AT_LOAD: 'redis://cache' },
      };
      const base = `/api/v1/functions/${(await town.client.object('POST', '/api/v1/functions', fields)).id}`;
      const deploy = (): Promise<ApiObject> => town.client.object('POST', `${base}/deploy?wait=100`, {});
      const call = async (path: string) =>
        Called.parse(await town.client.request('POST', `${base}/invoke`, { body: 'Hi', path }));
      const deployed = await deploy();
      const log = async (): Promise<string> => {
        const [version] = await town.client.list(`${base}/versions`);
        return JSON.stringify(await town.client.request('GET', `${base}/versions/${version?.id}/logs`));
      };
      expect(deployed.status, await log()).toBe('running');
      expect(await call('/')).toMatchObject({ answer: { status: 200, body: 'POSTHi' } });
      expect(await call('/throw')).toMatchObject({
        answer: { status: 500 },
        execution: { status: 'failed', log_preview: expect.stringContaining('boom') },
      });
      const place = { project_id: town.project.id, server_id: town.server.id };
      const volume = await town.client.object('POST', '/api/v1/volumes?wait=60', { ...place, name: runtime });
      const bind = { workload_type: 'function', workload_id: base.split('/').at(-1), mount_path: '/data' };
      await town.client.request('POST', `/api/v1/volumes/${volume.id}/bind?wait=60`, bind);
      expect(await call('/note')).toMatchObject({ answer: { status: 200, body: 'Hi' } });
      await town.client.request('PUT', base, { code: wrong });
      await deploy();
      expect(await log()).toContain(says);
      expect(await call('/')).toMatchObject({ execution: { cold_start: false }, answer: { body: 'POSTHi' } });
    },
  );
});
