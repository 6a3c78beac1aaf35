import { generateKeyPairSync } from 'node:crypto';
import ssh2 from 'ssh2';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keys } from '../../../store/keys.ts';
import { startApi } from '../../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../../harness/api.ts';
import { openFrames } from '../../harness/frames.ts';
import { InterruptibleStore } from '../../harness/interruptible-store.ts';

const unlimited = { perMinute: 0, burst: 1 };
const path = '/settings/ssh-keys';

let store: InterruptibleStore;
let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  world = await startApi({
    config: { rateLimit: unlimited, heavyRateLimit: unlimited },
    logLevel: 'trace',
    wrap: (inner) => (store = new InterruptibleStore(inner)),
  });
  owner = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
const aName = (): string => `name-${(count += 1)}`;
const detailOf = ({ body }: Answer) => body.error?.details?.[0];

const encrypted = (passphrase: string) =>
  ssh2.utils.generateKeyPairSync('ecdsa', { bits: 256, passphrase, cipher: 'aes256-ctr', rounds: 2 }).private;

async function aKey(fields: object = { password: 'open sesame' }): Promise<string> {
  const { status, data } = await owner.post(path, { name: aName(), ...fields });
  expect(status).toBe(201);
  return data.id;
}

async function aServer(fields: object = {}): Promise<{ id: string; name: string }> {
  const { status, data } = await owner.post('/servers', { name: aName(), ...fields });
  expect(status).toBe(201);
  return data;
}

/** The secret of a key, as a login will get it. */
async function secretOf(id: string): Promise<string> {
  const { credential } = (await world.repo.get('ssh_key', id))!.desired;
  const [field, sealed] =
    credential.type === 'key' ? ['private_key', credential.private_key] : ['password', credential.password];
  const place = { tenant: 'default', kind: 'ssh_key', id, path: `credential.${field}` };
  return world.keyring.unseal(sealed as { $sealed: string; for: string }, place);
}

describe('an SSH key', () => {
  it('is generated, and shows its public half with its name', async () => {
    const name = `key of ${aName()}`;
    const { status, data } = await owner.post(path, { name, description: 'for the fleet', labels: { team: 'blue' } });
    expect(status).toBe(201);
    expect(data).toMatchObject({
      name,
      description: 'for the fleet',
      labels: { team: 'blue' },
      type: 'ed25519',
      server_ids: [],
      status: 'unused',
      public_key: expect.stringMatching(new RegExp(`^ssh-ed25519 [A-Za-z0-9+/]+=* ${name}$`)),
      fingerprint: expect.stringMatching(/^SHA256:[A-Za-z0-9+/]{43}$/),
    });
    const [own, shown] = [ssh2.utils.parseKey(await secretOf(data.id)), ssh2.utils.parseKey(data.public_key)];
    if (own instanceof Error || shown instanceof Error) throw new Error('ssh2 does not read it');
    expect(own.getPublicSSH()).toEqual(shown.getPublicSSH());
    expect((await owner.get(`${path}/${data.id}`)).data).toEqual(data);
    expect((await owner.get(`${path}?q=${name}&status=unused`)).data).toEqual([data]);
    expect((await owner.get(`${path}?q=${name}&status=used`)).data).toEqual([]);
  });

  it('is generated as RSA of 4096 bits', async () => {
    const { data } = await owner.post(path, { name: aName(), generate: 'rsa' });
    expect([data.type, data.public_key.split(' ')[0]]).toEqual(['rsa-4096', 'ssh-rsa']);
  });

  it('is imported, with the passphrase that opens it', async () => {
    const text = encrypted('abra cadabra');
    const { status, data } = await owner.post(path, {
      name: aName(),
      private_key: text,
      passphrase: 'abra cadabra',
    });
    expect([status, data.type]).toEqual([201, 'ecdsa-nistp256']);
    expect(ssh2.utils.parseKey(await secretOf(data.id))).toMatchObject({ type: 'ecdsa-sha2-nistp256' });
  });

  it('is a password', async () => {
    const { data } = await owner.post(path, { name: aName(), password: 'päss word' });
    expect(data).toMatchObject({ type: 'password', public_key: null, fingerprint: null });
    expect(await secretOf(data.id)).toBe('päss word');
  });

  it('has a name of its own', async () => {
    const name = aName();
    await aKey({ name, password: 'x' });
    const again = await owner.post(path, { name: name.toUpperCase(), password: 'x' });
    expect([again.status, detailOf(again)?.field]).toEqual([409, 'name']);
  });

  it.each<[string, object, string, string]>([
    ['two secrets', { generate: 'rsa', password: 'x' }, 'password', 'several'],
    ['a passphrase alone', { passphrase: 'x' }, 'passphrase', 'without_key'],
    ['a passphrase for a password', { password: 'x', passphrase: 'x' }, 'passphrase', 'without_key'],
    ['a text', { private_key: 'x' }, 'private_key', 'no_key'],
    ['no passphrase', { private_key: encrypted('x') }, 'passphrase', 'passphrase_required'],
    ['a wrong passphrase', { private_key: encrypted('x'), passphrase: 'y' }, 'passphrase', 'wrong_passphrase'],
    [
      'weak RSA',
      {
        private_key: generateKeyPairSync('rsa', {
          modulusLength: 1024,
          privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
          publicKeyEncoding: { type: 'spki', format: 'pem' },
        }).privateKey,
      },
      'private_key',
      'weak',
    ],
  ])('is refused with %s, by the field and with what to do', async (_, fields, field, reason) => {
    const name = aName();
    const before = await store.revision();
    for (const answer of [await owner.post(path, { name, ...fields }), await owner.put(`${path}/${used}`, fields)]) {
      expect([answer.status, detailOf(answer)]).toMatchObject([400, { field, reason }]);
      expect(answer.body.error?.message).toMatch(/^(passphrase|private_key|Must) .*/);
    }
    expect(await store.revision()).toBe(before);
  });

  it.each([
    [{ password: 'a\nb' }, 'password'],
    [{ password: '' }, 'password'],
    [{ private_key: 'x'.repeat(20_001) }, 'private_key'],
    [{ generate: 'dsa' }, 'generate'],
    [{ type: 'ed25519' }, 'type'],
  ])('is refused with the field %j', async (fields, field) => {
    const answer = await owner.post(path, { name: aName(), ...fields });
    expect([answer.status, detailOf(answer)?.field]).toEqual([400, field]);
  });
});

let used: string;
beforeAll(async () => {
  used = await aKey();
});

describe('a change of an SSH key', () => {
  it('renames it, which renames the comment, and leaves its secret', async () => {
    const { data } = await owner.post(path, { name: aName() });
    const secret = await secretOf(data.id);
    const name = aName();
    const changed = await owner.put(`${path}/${data.id}`, { ...data, name, description: 'other' });
    expect(changed.data).toMatchObject({ name, description: 'other', fingerprint: data.fingerprint });
    expect(changed.data.public_key).toBe(data.public_key.replace(data.name, name));
    expect(await secretOf(data.id)).toBe(secret);
    expect((await owner.put(`${path}/${data.id}`, { description: null })).data.description).toBeNull();
  });

  it('replaces its secret by another of any type, also while a server uses it', async () => {
    const { data } = await owner.post(path, { name: aName() });
    await aServer({ sshKeyId: data.id });
    const rotated = await owner.put(`${path}/${data.id}`, { generate: 'ed25519' });
    expect(rotated.status).toBe(200);
    expect(rotated.data.fingerprint).not.toBe(data.fingerprint);
    expect(rotated.data.status).toBe('used');
    const imported = await owner.put(`${path}/${data.id}`, { private_key: encrypted('x'), passphrase: 'x' });
    expect(imported.data.fingerprint).not.toBe(rotated.data.fingerprint);
    const word = await owner.put(`${path}/${data.id}`, { password: 'sesame' });
    expect(word.data).toMatchObject({ type: 'password', public_key: null });
    expect(await secretOf(data.id)).toBe('sesame');
  });
});

describe('an SSH key that servers use', () => {
  it('names them, and is deleted only when they have another one or none', async () => {
    const id = await aKey();
    const [one, two] = [await aServer({ sshKeyId: id }), await aServer()];
    expect((await owner.put(`/servers/${two.id}`, { ssh_key_id: id })).data.ssh_key_id).toBe(id);
    expect((await owner.get(`${path}/${id}`)).data).toMatchObject({ server_ids: [one.id, two.id], status: 'used' });
    const refused = await owner.delete(`${path}/${id}`);
    expect([refused.status, refused.body.error?.message]).toEqual([
      409,
      `The SSH key is used by ${one.name}, ${two.name}: give these servers another ssh_key_id, or none, by setpoint set server NAME --ssh-key OTHER`,
    ]);
    expect(refused.body.error?.details).toMatchObject(
      [one, two].map((it) => ({ field: 'ssh_key_id', reason: 'in_use', message: `Server ${it.name} (${it.id})` })),
    );
    await owner.put(`/servers/${one.id}`, { ssh_key_id: used });
    expect((await owner.delete(`${path}/${id}`)).status).toBe(409);
    await owner.put(`/servers/${two.id}`, { ssh_key_id: null });
    expect((await owner.delete(`${path}/${id}`)).status).toBe(204);
    expect((await owner.get(`${path}/${id}`)).status).toBe(404);
    expect(await store.get(keys.population('default', 'ssh_key', id))).toBeUndefined();
  });

  it('names at most twenty of them', async () => {
    const id = await aKey();
    for (let n = 0; n < 21; n += 1) await aServer({ sshKeyId: id });
    const { body } = await owner.delete(`${path}/${id}`);
    expect(body.error?.details).toHaveLength(20);
    expect(body.error?.message).toMatch(/ and 1 more: /);
  });

  it('is kept until a server that is being deleted is gone', async () => {
    const id = await aKey();
    const server = await aServer({ sshKeyId: id });
    expect((await owner.delete(`/servers/${server.id}`)).status).toBe(200);
    expect((await owner.delete(`${path}/${id}`)).status).toBe(409);
    const it = (await world.repo.get('server', server.id))!;
    const unit = world.repo.begin();
    unit.release(it, 'server');
    expect(await unit.commit()).toMatchObject({ committed: true });
    expect((await owner.delete(`${path}/${id}`)).status).toBe(204);
  });

  /** Runs once, before the next transaction that writes the key. */
  function beforeWriteOf(key: string, run: () => Promise<void>): void {
    store.beforeTxn = async (txn) => {
      if (!txn.then.some((write) => ('put' in write ? write.put : 'delete' in write ? write.delete : '') === key))
        return;
      store.beforeTxn = undefined;
      await run();
    };
  }

  /** The two ways in which a server begins to use a key. */
  const uses: [string, (id: string) => Promise<() => Promise<Answer>>][] = [
    ['is created with it', async (id) => () => owner.post('/servers', { name: aName(), sshKeyId: id })],
    [
      'changes to it',
      async (id) => {
        const server = await aServer();
        return () => owner.put(`/servers/${server.id}`, { ssh_key_id: id });
      },
    ],
  ];

  it.each(uses)('is kept if a server %s between the look and the deletion', async (_, prepare) => {
    const id = await aKey();
    const use = await prepare(id);
    let begun: Answer | undefined;
    beforeWriteOf(keys.desired('default', 'ssh_key', id), async () => {
      begun = await use();
    });
    const deleted = await owner.delete(`${path}/${id}`);
    expect([200, 201]).toContain(begun?.status);
    expect(deleted.status).toBe(409);
    expect(await world.repo.get('ssh_key', id)).toBeDefined();
  });

  it.each(uses)('is not used if it is deleted while a server %s', async (_, prepare) => {
    const id = await aKey();
    const use = await prepare(id);
    let deleted: Answer | undefined;
    beforeWriteOf(keys.population('default', 'ssh_key', id), async () => {
      deleted = await owner.delete(`${path}/${id}`);
    });
    const begun = await use();
    expect([deleted?.status, begun.status]).toEqual([204, 404]);
    await world.settled();
    expect(world.mirror.tenant('default').by('server', 'ssh_key', id)).toEqual([]);
  });

  it('is not used if it is deleted while a server changes to it, which another change overtook', async () => {
    const [id, server] = [await aKey(), await aServer()];
    const marker = keys.population('default', 'ssh_key', id);
    let deleted: Answer | undefined;
    beforeWriteOf(marker, async () => {
      // the request is decided again, without the guards of an attempt from the mirror
      await world.repo.change('server', server.id, (draft) => void (draft.log_retention_days = 8));
      beforeWriteOf(marker, async () => {
        deleted = await owner.delete(`${path}/${id}`);
      });
    });
    const changed = await owner.put(`/servers/${server.id}`, { ssh_key_id: id });
    expect([deleted?.status, changed.status]).toEqual([204, 404]);
    expect((await owner.get(`/servers/${server.id}`)).data).toMatchObject({ ssh_key_id: null, log_retention_days: 8 });
  });
});

describe('/ws/watch', () => {
  const open = (headers: Record<string, string>) =>
    openFrames(`${world.url.replace('http', 'ws')}/default/ws/watch?kinds=ssh_key`, headers);
  const by = ({ token }: Client) => ({ authorization: `Bearer ${token}` });

  it('sends keys to admins of the tenant, also as servers begin and cease to use them', async () => {
    await using frames = await open(by(await world.user('admin')));
    await frames.next('ready');
    const id = await aKey();
    expect(await frames.next('change')).toMatchObject({ op: 'put', kind: 'ssh_key', object: { id, server_ids: [] } });
    const server = await aServer({ sshKeyId: id });
    expect(await frames.next('change')).toMatchObject({ object: { id, server_ids: [server.id], status: 'used' } });
    await owner.put(`/servers/${server.id}`, { log_retention_days: 9 });
    await owner.put(`/servers/${server.id}`, { ssh_key_id: null });
    expect(await frames.next('change')).toMatchObject({ object: { id, server_ids: [], status: 'unused' } });
    await owner.delete(`${path}/${id}`);
    expect(await frames.next('change')).toMatchObject({ op: 'delete', kind: 'ssh_key', id });
    expect(frames.all.filter(({ type }) => type === 'change')).toHaveLength(4);
  });

  it('sends none to users, and none to a key that is narrowed to a project', async () => {
    const { project } = await world.place(owner);
    const { data } = await owner.post('/settings/service-keys', { name: aName(), project_id: project });
    const user = await world.user();
    await owner.post(`/projects/${project}/members`, { user_id: user.id, role: 'admin' });
    await using ofUser = await open(by(user));
    await using ofKey = await open({ 'x-service-key': data.key });
    await using ofOwner = await open(by(owner));
    for (const frames of [ofUser, ofKey, ofOwner]) await frames.next('ready');
    const id = await aKey();
    expect(await ofOwner.next('change')).toMatchObject({ id });
    for (const credential of [by(user), { 'x-service-key': data.key }])
      expect((await world.client().get(`${path}/${id}`, credential)).status).toBe(403);
    expect([...ofUser.all, ...ofKey.all].filter(({ type }) => type === 'change')).toEqual([]);
  });
});

describe('no secret of an SSH key', () => {
  /** Pieces of a text that are long enough to be nothing else. */
  const piecesOf = (text: string): string[] =>
    text
      .split('\n')
      .filter((line) => line.length >= 32 && !line.includes('PRIVATE KEY'))
      // what differs from the public half is in the last lines
      .slice(-3);

  it('is in the store, the log, an answer, the audit log, or a stream', async () => {
    await using frames = await openFrames(`${world.url.replace('http', 'ws')}/default/ws/watch`, {
      authorization: `Bearer ${owner.token}`,
    });
    await frames.next('ready');
    const texts: string[] = [];
    const ask = async (method: string, at: string, body?: object, headers?: Record<string, string>) => {
      const answer = await owner.request(method, at, body, headers);
      texts.push(JSON.stringify(answer.body ?? null), JSON.stringify([...answer.headers]));
      return answer;
    };
    const passphrase = 'passphrase-5f0c1d';
    const password = 'password-9a7be2';
    const imported = encrypted(passphrase);
    const again = encrypted(passphrase);
    const repeated = { 'idempotency-key': aName() };
    const ofPassword = { name: aName(), password };
    const made = [
      await ask('POST', path, { name: aName(), private_key: imported, passphrase }),
      await ask('POST', path, ofPassword, repeated),
      await ask('POST', path, ofPassword, repeated),
      await ask('POST', path, { name: aName() }),
    ];
    expect(made.map(({ status }) => status)).toEqual([201, 201, 201, 201]);
    const ids: string[] = made.map(({ data }) => data.id);
    const secrets = [passphrase, password, 'password-refused', ...piecesOf(imported), ...piecesOf(again)];
    for (const id of [ids[0]!, ids[3]!]) secrets.push(...piecesOf(await secretOf(id)));
    await ask('PUT', `${path}/${ids[3]}`, { private_key: again, passphrase });
    secrets.push(...piecesOf(await secretOf(ids[3]!)));
    expect(secrets.length).toBeGreaterThan(10);
    // what is refused is not shown either
    for (const wrong of [
      { private_key: imported, passphrase: `${passphrase}-not` },
      { password: ['password-refused'] },
    ])
      expect((await ask('POST', path, { name: aName(), ...wrong })).status).toBe(400);
    expect((await ask('POST', path, { name: ofPassword.name, password })).status).toBe(409);
    expect((await (await world.user()).post(path, { name: aName(), password })).status).toBe(403);
    const server = await aServer({ sshKeyId: ids[0]! });
    for (const at of [
      path,
      `${path}/${ids[0]}`,
      `${path}/${ids[3]}`,
      `/servers/${server.id}`,
      '/audit?limit=500',
      '/notifications',
    ])
      expect((await ask('GET', at)).status).toBe(200);
    await ask('DELETE', `${path}/${ids[1]}`);
    await world.settled();
    const records: string[] = [];
    let after: string | undefined;
    do {
      const page = await store.list(keys.all, { limit: 500, ...(after !== undefined && { after }) });
      records.push(...page.entries.map(({ key, value }) => `${key} ${value}`));
      after = page.next;
    } while (after !== undefined);
    // each place was looked at
    expect(records.join('\n')).toContain(ids[0]);
    expect(texts.join('\n')).toContain('credential.private_key');
    expect(world.logged.join('\n')).toContain('/settings/ssh-keys');
    expect(JSON.stringify(frames.all)).toContain(ids[0]);
    expect([...texts, JSON.stringify(frames.all)].filter((text) => text.includes('$sealed'))).toEqual([]);
    const places = { records, texts, logged: world.logged, frames: frames.all.map((it) => JSON.stringify(it)) };
    for (const [place, all] of Object.entries(places))
      for (const secret of secrets)
        expect(
          all.filter((text) => text.includes(secret)),
          `${secret} in ${place}`,
        ).toEqual([]);
  });
});
