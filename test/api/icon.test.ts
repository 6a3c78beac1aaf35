import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { formOf, gif, jpeg, png, webp } from '../harness/images.ts';

let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function project(): Promise<string> {
  return (await owner.post('/projects', { name: crypto.randomUUID() })).data.id;
}

async function post(
  id: string,
  body: FormData | string | Buffer,
  headers: Record<string, string> = {},
  token = owner.token,
) {
  const response = await fetch(`${world.url}/default/api/v1/projects/${id}/icon`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, ...headers },
    body: body instanceof Buffer ? new Uint8Array(body) : body,
  });
  const answer = (await response.json()) as {
    data: { icon_path: string; generation: number; resource_version: string };
    error?: { message: string; code: string };
  };
  return { status: response.status, ...answer };
}

function show(path: string, headers: Record<string, string> = {}, token = owner.token) {
  return fetch(`${world.url}${path}`, { headers: { authorization: `Bearer ${token}`, ...headers } });
}

const bytesOf = (id: string) => world.store.get(keys.bytes('default', 'project', id));

const jpegEnd = Buffer.from([0xff, 0xd9]);

/** As progressive ones have it, with a table before it, a stuffed byte and a restart in it, and a filler behind it. */
function withSecondScan(image: Buffer): Buffer {
  const table = [0xff, 0xc4, 0, 3, 0];
  const scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x12, 0xff, 0, 0x34, 0xff, 0xd0, 0x56, 0xff];
  return Buffer.concat([image.subarray(0, -2), Buffer.from([...table, ...scan]), jpegEnd]);
}

describe('an icon', () => {
  it.each([
    ['image/png', png()],
    ['image/jpeg', jpeg()],
    ['image/jpeg', withSecondScan(jpeg())],
    ['image/gif', gif()],
    ['image/webp', webp()],
    ['image/png', png(2048, 2048)],
    ['image/png', png(1, 1)],
  ])('of the type %s is shown as it was sent', async (type, bytes) => {
    const id = await project();
    const set = await post(id, formOf(bytes));
    expect(set.status).toBe(200);
    expect(set.data.icon_path).toMatch(new RegExp(`^/default/api/v1/projects/${id}/icon\\?v=[0-9a-f]{16}$`));
    const shown = await show(set.data.icon_path);
    expect(shown.status).toBe(200);
    expect(Buffer.from(await shown.arrayBuffer())).toEqual(bytes);
    expect(Object.fromEntries(shown.headers)).toMatchObject({
      'content-type': type,
      'content-length': String(bytes.length),
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringContaining('sandbox'),
      'content-disposition': `attachment; filename="icon.${type.slice(6)}"`,
      'cache-control': 'private, no-cache',
      'x-service-version': '1.2.3',
      'x-request-id': expect.any(String),
    });
    const again = await show(set.data.icon_path, { 'if-none-match': shown.headers.get('etag')! });
    expect([again.status, await again.text()]).toEqual([304, '']);
    const weak = await show(set.data.icon_path, { 'if-none-match': `"x", W/${shown.headers.get('etag')!}` });
    expect(weak.status).toBe(304);
    expect((await show(set.data.icon_path, { 'if-none-match': '"other"' })).status).toBe(200);
  });

  it.each([
    ['an SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')],
    ['HTML', Buffer.from('<html></html>')],
    ['nothing', Buffer.alloc(0)],
    ['a PNG that is cut off', png().subarray(0, -1)],
    ['a PNG whose header alone is there', png().subarray(0, 33)],
    ['a PNG with an archive behind it', Buffer.concat([png(), Buffer.from('PK\x03\x04')])],
    ['a JPEG that is cut off', jpeg().subarray(0, -2)],
    ['a JPEG with a page behind it', Buffer.concat([jpeg(), Buffer.from('<script>')])],
    ['a JPEG with a page behind it that ends as a JPEG', Buffer.concat([jpeg(), Buffer.from('<script>'), jpegEnd])],
    ['a JPEG with another one behind it', Buffer.concat([jpeg(), jpeg()])],
    ['a JPEG without pixels', Buffer.concat([jpeg().subarray(0, 2), jpegEnd])],
    ['a GIF that is cut off', gif().subarray(0, -1)],
    ['a GIF with an archive behind it', Buffer.concat([gif(), Buffer.from('PK')])],
    ['a GIF of nothing but magic', Buffer.from('GIF89a/*<script>*/')],
    ['a WebP that is cut off', webp().subarray(0, -1)],
    ['a WebP with something behind it', Buffer.concat([webp(), Buffer.from('x')])],
    ['a PNG behind something else', Buffer.concat([Buffer.from('x'), png()])],
    ['a PNG that is too wide', png(2049, 1)],
    ['a PNG that is too high', png(1, 2049)],
    ['a PNG that says it is endless', Buffer.from(png()).fill(0xff, 16, 24)],
    ['a JPEG of no height', jpeg(2, 0)],
    ['a BMP', Buffer.concat([Buffer.from('BM'), Buffer.alloc(60)])],
  ])('is not %s', async (_, bytes) => {
    const id = await project();
    const refused = await post(id, formOf(bytes));
    expect(refused.status).toBe(400);
    expect(refused.error?.message).toMatch(/^Icon must/);
    expect(await bytesOf(id)).toBeUndefined();
    expect((await owner.get(`/projects/${id}`)).data.icon_path).toBeNull();
  });

  it('has at most 512 KiB', async () => {
    const id = await project();
    const end = png().subarray(-12);
    const large = (size: number): Buffer => {
      const image = png();
      const filling = Buffer.alloc(size - image.length - 12);
      const comment = Buffer.concat([Buffer.alloc(4), Buffer.from('tEXt'), filling, Buffer.alloc(4)]);
      comment.writeUInt32BE(filling.length);
      return Buffer.concat([image.subarray(0, -12), comment, end]);
    };
    const most = large(512 * 1024);
    expect((await post(id, formOf(most))).status).toBe(200);
    for (const size of [512 * 1024 + 1, 520 * 1024, 600 * 1024]) {
      const refused = await post(id, formOf(large(size)));
      expect([refused.status, refused.error?.message]).toEqual([400, expect.stringMatching(/must not be longer than/)]);
    }
    expect(Buffer.from(await (await show(`/default/api/v1/projects/${id}/icon`)).arrayBuffer())).toEqual(most);
  });

  const part = (boundary: string, bytes: Buffer, name = 'file') =>
    Buffer.concat([
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="x"\r\n\r\n`),
      bytes,
      Buffer.from('\r\n'),
    ]);
  const form = { 'content-type': 'multipart/form-data; boundary=b' };

  it.each<[string, FormData | string | Buffer, Record<string, string>]>([
    ['two files', formOf(png(), png()), {}],
    ['no file', new FormData(), {}],
    ['JSON', '{}', { 'content-type': 'application/json' }],
    ['no form', png(), { 'content-type': 'image/png' }],
    ['a form without a boundary', part('b', png()), { 'content-type': 'multipart/form-data' }],
    ['a form that is another one', part('c', png()), form],
    ['a form that is cut off', part('b', png()), form],
    ['a form that is cut off in its file', part('b', png()).subarray(0, 100), form],
    [
      'a form of text alone',
      Buffer.from('--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n'),
      form,
    ],
    [
      'six parts',
      Buffer.concat([
        ...Array.from({ length: 6 }, () => Buffer.from('--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n')),
        part('b', png()),
        Buffer.from('--b--\r\n'),
      ]),
      form,
    ],
    ['a compressed form', formOf(png()), { 'content-encoding': 'gzip' }],
  ])('is refused as %s, and the answer says what to send', async (_, body, headers) => {
    const id = await project();
    const refused = await post(id, body, headers);
    expect(refused.status).toBe(400);
    expect(refused.error?.message).toMatch(/one file|compressed/);
    expect(await bytesOf(id)).toBeUndefined();
  });

  it('may come with fields that nobody asked for, under any name', async () => {
    const id = await project();
    const body = Buffer.concat([
      Buffer.from('--b\r\nContent-Disposition: form-data; name="__proto__"\r\n\r\nx\r\n'),
      part('b', png(), 'whatever'),
      Buffer.from('--b--\r\n'),
    ]);
    expect((await post(id, body, form)).status).toBe(200);
  });

  it('has another address when it is another one, and the same when it is the same', async () => {
    const id = await project();
    const first = await post(id, formOf(png(3, 3)));
    const same = await post(id, formOf(png(3, 3)));
    expect(same.data).toEqual(first.data);
    const second = await post(id, formOf(gif()));
    expect(second.data.icon_path).not.toBe(first.data.icon_path);
    expect(second.data.generation).toBe(first.data.generation + 1);
    expect((await show(first.data.icon_path)).headers.get('content-type')).toBe('image/gif');
  });

  it('is not given by a PUT, nor taken away by one', async () => {
    const id = await project();
    const { data } = await post(id, formOf(png()));
    const { data: after } = await owner.put(`/projects/${id}`, { icon_path: '/elsewhere', description: 'x' });
    expect(after.icon_path).toBe(data.icon_path);
  });

  it('is taken away with its bytes, once and again', async () => {
    const id = await project();
    const { data } = await post(id, formOf(png()));
    expect(await bytesOf(id)).toBeDefined();
    expect((await owner.delete(`/projects/${id}/icon`)).status).toBe(204);
    expect(await bytesOf(id)).toBeUndefined();
    expect((await owner.get(`/projects/${id}`)).data.icon_path).toBeNull();
    expect((await show(data.icon_path)).status).toBe(404);
    expect((await owner.delete(`/projects/${id}/icon`)).status).toBe(204);
  });

  it('goes with its project, in the transaction that removes it', async () => {
    const id = await project();
    await post(id, formOf(png()));
    await owner.delete(`/projects/${id}`);
    expect((await post(id, formOf(gif()))).status).toBe(409);
    expect(await bytesOf(id)).toBeDefined();
    const unit = world.repo.begin();
    unit.release((await world.repo.get('project', id))!, 'project');
    await unit.commit();
    expect(await bytesOf(id)).toBeUndefined();
  });

  it('is one of those that were sent when several are sent at once', async () => {
    const id = await project();
    const images = [png(4, 4), png(5, 5), gif(), webp()];
    const answers = await Promise.all(images.map((image) => post(id, formOf(image))));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const { data } = await owner.get(`/projects/${id}`);
    const shown = await show(data.icon_path);
    const etag = shown.headers.get('etag')!;
    expect(data.icon_path.endsWith(etag.slice(1, 17))).toBe(true);
    const bytes = Buffer.from(await shown.arrayBuffer());
    expect(images.some((image) => image.equals(bytes))).toBe(true);
  });

  it('is sent again with the same key as the same, and not as another one', async () => {
    const id = await project();
    const key = { 'idempotency-key': crypto.randomUUID() };
    const first = await post(id, formOf(png()), key);
    expect((await post(id, formOf(png()), key)).data).toEqual(first.data);
    expect((await post(id, formOf(gif()), key)).status).toBe(409);
  });

  it('is not held by the mirror', async () => {
    const id = await project();
    await post(id, formOf(png()));
    await world.settled();
    expect(world.mirror.key(keys.bytes('default', 'project', id))).toBeUndefined();
    expect(world.mirror.keysUnder(keys.bytes('default', '', ''))).toEqual([]);
  });

  it('is hidden from who may not see the project, and kept by who may not administer it', async () => {
    const id = await project();
    const { data } = await post(id, formOf(png()));
    const user = await world.user();
    expect((await show(data.icon_path, {}, user.token)).status).toBe(403);
    expect((await post(id, formOf(gif()), {}, user.token)).status).toBe(403);
    expect((await user.delete(`/projects/${id}/icon`)).status).toBe(403);
    const open = await fetch(`${world.url}${data.icon_path}`);
    expect(open.status).toBe(401);
    expect(open.headers.get('content-type')).toContain('application/json');
  });
});
