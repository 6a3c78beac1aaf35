import { randomBytes } from 'node:crypto';
import { chmod, copyFile, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import { openKeyring } from '../../store/seal.ts';
import type { SealPlace } from '../../store/seal.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';

const place: SealPlace = { tenant: 'acme', kind: 'application', id: 'a1', path: 'config.env.TOKEN' };

let folder: string;
let path: string;
let store: Store & AsyncDisposable;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-seal-'));
  path = join(folder, 'secrets', 'keys.json');
  store = await openSqlite({ path: ':memory:' });
});

afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

async function primaryKey(): Promise<string> {
  return (JSON.parse(await readFile(path, 'utf8')) as { primary: string }).primary;
}

describe('SEC-58: a sealed value', () => {
  it('opens to what was sealed, whatever it is', async () => {
    const ring = await openKeyring({ path, store });
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (plain) => {
        expect(ring.unseal(ring.seal(plain, place), place)).toBe(plain);
      }),
    );
  });

  it('names its key and its place, and differs each time', async () => {
    const ring = await openKeyring({ path, store });
    const first = ring.seal('secret', place);
    expect(first.for).toBe('application/a1/config.env.TOKEN');
    expect(first.$sealed).toMatch(/^[0-9a-f]{8}\.[\w-]{16}\.[\w-]+$/);
    expect(first.$sealed.split('.')[0]).toBe(await primaryKey());
    expect(ring.seal('secret', place).$sealed).not.toBe(first.$sealed);
    expect(JSON.stringify(first)).not.toContain('secret');
  });

  it.each([
    ['tenant', { ...place, tenant: 'other' }],
    ['kind', { ...place, kind: 'server' }],
    ['object', { ...place, id: 'a2' }],
    ['field', { ...place, path: 'config.env.OTHER' }],
  ])('does not open for another %s, even if it claims to belong there', async (_, elsewhere) => {
    const ring = await openKeyring({ path, store });
    const value = ring.seal('secret', place);
    const claimed = { ...value, for: `${elsewhere.kind}/${elsewhere.id}/${elsewhere.path}` };
    expect(() => ring.unseal(value, elsewhere)).toThrow('Cannot unseal');
    expect(() => ring.unseal(claimed, elsewhere)).toThrow('Cannot unseal');
  });

  it('does not open when any byte of it was changed', async () => {
    const ring = await openKeyring({ path, store });
    const value = ring.seal('secret', place);
    const [key, nonce = '', sealed = ''] = value.$sealed.split('.');
    const flip = (text: string, at: number): string => {
      const bytes = Buffer.from(text, 'base64url');
      bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
      return bytes.toString('base64url');
    };
    for (let at = 0; at < 12; at++)
      expect(() => ring.unseal({ ...value, $sealed: `${key}.${flip(nonce, at)}.${sealed}` }, place)).toThrow();
    for (let at = 0; at < 'secret'.length + 16; at++)
      expect(() => ring.unseal({ ...value, $sealed: `${key}.${nonce}.${flip(sealed, at)}` }, place)).toThrow();
  });

  it.each(['', 'x', 'a.b', 'a.b.c', '..', 'a.AAAAAAAAAAAAAAAA.AAAA', 'a.b.c.d'])(
    'of the form "%s" is an error, never an empty secret',
    async (text) => {
      const ring = await openKeyring({ path, store });
      const $sealed = text.replace(/^a/, await primaryKey());
      expect(() => ring.unseal({ $sealed, for: 'application/a1/config.env.TOKEN' }, place)).toThrow('Cannot unseal');
    },
  );

  it('does not open with a shortened tag', async () => {
    const ring = await openKeyring({ path, store });
    const value = ring.seal('', place);
    const [key, nonce, sealed = ''] = value.$sealed.split('.');
    const short = Buffer.from(sealed, 'base64url').subarray(0, 12).toString('base64url');
    expect(() => ring.unseal({ ...value, $sealed: `${key}.${nonce}.${short}` }, place)).toThrow('Cannot unseal');
  });
});

describe('the key file', () => {
  it('is made at the first start, for its owner only, and serves the next one', async () => {
    const value = (await openKeyring({ path, store })).seal('secret', place);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(folder, 'secrets'))).mode & 0o777).toBe(0o700);
    expect(await readdir(join(folder, 'secrets'))).toEqual(['keys.json']);
    expect((await openKeyring({ path, store })).unseal(value, place)).toBe('secret');
  });

  it.each([0o640, 0o604, 0o620, 0o666])('is refused with mode %o', async (mode) => {
    await openKeyring({ path, store });
    await chmod(path, mode);
    await expect(openKeyring({ path, store })).rejects.toThrow(`chmod 600): ${path} has mode ${mode.toString(8)}`);
  });

  it.each([
    ['no JSON', 'secret'],
    ['a short key', JSON.stringify({ primary: 'a', keys: { a: randomBytes(16).toString('base64') } })],
    ['no primary key', JSON.stringify({ primary: 'b', keys: { a: randomBytes(32).toString('base64') } })],
    ['an inherited primary key', JSON.stringify({ primary: 'toString', keys: {} })],
    ['an id with a dot', JSON.stringify({ primary: 'a.b', keys: { 'a.b': randomBytes(32).toString('base64') } })],
  ])('is refused with %s, and the error does not quote it', async (_, content) => {
    await openKeyring({ path, store });
    await writeFile(path, content);
    const error: unknown = await openKeyring({ path, store }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect((error as Error).message).toContain('Key file must hold');
    expect(String((error as Error).cause)).toBe('undefined');
  });

  it('is refused with the reason where it cannot be read', async () => {
    await openKeyring({ path, store });
    await rm(path);
    await mkdir(path, { mode: 0o700 });
    await expect(openKeyring({ path, store })).rejects.toThrow('Cannot read the key file (EISDIR)');
  });

  it('is not made anew for a store that holds secrets', async () => {
    await openKeyring({ path, store });
    await rm(path);
    await expect(openKeyring({ path, store })).rejects.toThrow("the store's secrets were sealed with its keys");
    expect(await readdir(join(folder, 'secrets'))).toEqual([]);
  });

  it('of another store is refused', async () => {
    await openKeyring({ path, store });
    await using other = await openSqlite({ path: ':memory:' });
    const otherPath = join(folder, 'other.json');
    await openKeyring({ path: otherPath, store: other });
    await expect(openKeyring({ path: otherPath, store })).rejects.toThrow(
      `Key file does not open the secrets of this store: ${otherPath}`,
    );
  });

  it('whose canary was changed is refused', async () => {
    await openKeyring({ path, store });
    await store.txn({ if: [], then: [{ put: keys.meta('seal-canary'), value: '{"text":"setpoint"}' }] });
    await expect(openKeyring({ path, store })).rejects.toThrow('does not open the secrets');
  });

  it('is one file for processes that start at once', async () => {
    const rings = await Promise.all(Array.from({ length: 5 }, () => openKeyring({ path, store })));
    const values = rings.map((ring) => ring.seal('secret', place));
    for (const ring of rings) for (const value of values) expect(ring.unseal(value, place)).toBe('secret');
    expect(await readdir(join(folder, 'secrets'))).toEqual(['keys.json']);
  });

  it('lets only one of two processes win that start with files of their own', async () => {
    const paths = [join(folder, 'a.json'), join(folder, 'b.json')];
    const results = await Promise.allSettled(paths.map((own) => openKeyring({ path: own, store })));
    expect(results.map((result) => result.status).sort()).toEqual(['fulfilled', 'rejected']);
  });
});

describe('a rotation', () => {
  it('seals with the new key and still opens what older keys sealed, also after a restart', async () => {
    const ring = await openKeyring({ path, store });
    const old = ring.seal('old', place);
    await ring.addKey();
    const fresh = ring.seal('new', place);
    expect([ring.needsReseal(old), ring.needsReseal(fresh)]).toEqual([true, false]);
    const restarted = await openKeyring({ path, store });
    expect([restarted.unseal(old, place), restarted.unseal(fresh, place)]).toEqual(['old', 'new']);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it('reaches a process that runs by the first value that it meets', async () => {
    const [ring, other] = [await openKeyring({ path, store }), await openKeyring({ path, store })];
    const old = ring.seal('old', place);
    await ring.addKey();
    expect(other.unseal(ring.seal('new', place), place)).toBe('new');
    expect(other.needsReseal(old)).toBe(true);
    expect(ring.needsReseal(other.seal('third', place))).toBe(false);
  });

  it.each([
    ['half a file', () => writeFile(path, '{')],
    [
      'a file that others may read',
      async () => {
        await writeFile(path, `${await readFile(path, 'utf8')}\n`);
        await chmod(path, 0o644);
      },
    ],
    ['what cannot be read', () => rm(path).then(() => mkdir(path, { mode: 0o700 }))],
    ['no file', () => rm(path)],
  ])('goes on with the known keys while there is %s, and takes the next one that is whole', async (_, spoil) => {
    const faults: unknown[] = [];
    const ring = await openKeyring({ path, store, onFault: (error) => void faults.push(error) });
    const primary = await primaryKey();
    const good = await readFile(path, 'utf8');
    const old = ring.seal('old', place);
    await spoil();
    for (const value of [old, ring.seal('new', place)]) {
      expect(value.$sealed.split('.')[0]).toBe(primary);
      expect(ring.unseal(value, place)).toMatch(/old|new/);
    }
    expect(faults).toHaveLength(1);
    await rm(path, { recursive: true, force: true });
    const keysOf = (JSON.parse(good) as { keys: object }).keys;
    const next = { primary: 'next', keys: { ...keysOf, next: randomBytes(32).toString('base64') } };
    await writeFile(path, JSON.stringify(next), { mode: 0o600 });
    expect(ring.seal('third', place).$sealed).toMatch(/^next\./);
    expect(ring.unseal(old, place)).toBe('old');
  });

  it('proves the new key by the canary, so that a copy of the old file is refused', async () => {
    const ring = await openKeyring({ path, store });
    const copy = join(folder, 'copy.json');
    await copyFile(path, copy);
    await ring.addKey();
    await openKeyring({ path, store });
    await expect(openKeyring({ path: copy, store })).rejects.toThrow('does not open the secrets');
  });

  it('is refused while another one runs, and then possible again', async () => {
    const ring = await openKeyring({ path, store });
    await writeFile(`${path}.new`, '');
    await expect(ring.addKey()).rejects.toThrow(`remove ${path}.new`);
    await rm(`${path}.new`);
    await ring.addKey();
    expect(await readdir(join(folder, 'secrets'))).toEqual(['keys.json']);
  });

  it('loses no key when several processes rotate at once', async () => {
    const rings = await Promise.all(Array.from({ length: 4 }, () => openKeyring({ path, store })));
    const sealed = await Promise.all(
      rings.map(async (ring) => {
        await ring.addKey().catch(() => undefined); // refused: another one was at it
        return ring.seal('secret', place);
      }),
    );
    const restarted = await openKeyring({ path, store });
    for (const value of sealed) expect(restarted.unseal(value, place)).toBe('secret');
  });

  it('renews every sealed value of a record for its place and nothing else', async () => {
    const ring = await openKeyring({ path, store });
    const elsewhere = { ...place, path: 'source.token' };
    const record = {
      v: 3,
      unknown: [1.5, null, { $sealed: 7 }],
      desired: { config: { env: { TOKEN: ring.seal('one', place) } }, list: [{ deep: ring.seal('two', elsewhere) }] },
    };
    expect(ring.resealRecord('acme', JSON.stringify(record))).toBeUndefined();
    await ring.addKey();
    const fresh = { ...record, kept: ring.seal('three', place) };
    const renewed = JSON.parse(ring.resealRecord('acme', JSON.stringify(fresh)) ?? '') as typeof fresh;
    expect(renewed.unknown).toEqual(record.unknown);
    expect(renewed.kept).toEqual(fresh.kept);
    expect(ring.unseal(renewed.desired.config.env.TOKEN, place)).toBe('one');
    expect(ring.unseal(renewed.desired.list[0]!.deep, elsewhere)).toBe('two');
    expect(ring.needsReseal(renewed.desired.config.env.TOKEN)).toBe(false);
    expect(ring.resealRecord('acme', JSON.stringify(renewed))).toBeUndefined();
  });

  it('leaves equal what was equal, and nothing else', async () => {
    const ring = await openKeyring({ path, store });
    const one = ring.seal('one', place);
    const values = [one, one, ring.seal('one', place), ring.seal('two', place)];
    await ring.addKey();
    // each in a record of its own, as an application and its deployments
    const renewed = values.map(
      (value) => JSON.parse(ring.resealRecord('acme', JSON.stringify({ value })) ?? '') as { value: typeof one },
    );
    const texts = renewed.map(({ value }) => value.$sealed);
    expect(texts[1]).toBe(texts[0]);
    const nonces = texts.map((text) => text.split('.')[1]);
    expect([new Set(texts).size, new Set(nonces).size]).toEqual([3, 3]);
    expect(renewed.map(({ value }) => ring.unseal(value, place))).toEqual(['one', 'one', 'one', 'two']);
    // nor has another key the same nonce for it
    await ring.addKey();
    const next = JSON.parse(ring.resealRecord('acme', JSON.stringify(renewed[0])) ?? '') as { value: typeof one };
    expect(nonces).not.toContain(next.value.$sealed.split('.')[1]);
  });

  it('fails on a value that does not open rather than dropping it', async () => {
    const ring = await openKeyring({ path, store });
    const record = JSON.stringify({ desired: { token: ring.seal('one', place) } });
    await ring.addKey();
    expect(() => ring.resealRecord('other', record)).toThrow('Cannot unseal');
  });
});
