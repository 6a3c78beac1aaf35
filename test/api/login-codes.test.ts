import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';

let world: ApiWorld;
let clock: FakeClock;

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock, config: { codeRateLimit: { perMinute: 0, burst: 1 } } });
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** Another world for this test: where etcd keeps it, there is one at a time. */
async function restart(options: Parameters<typeof startApi>[0]): Promise<void> {
  await world[Symbol.asyncDispose]();
  world = await startApi(options);
}

const email = 'ada@example.test';
const send = (address = email) => world.client().post('/auth/send-code', { email: address, method: 'email' });
const verify = (code: string, address = email) =>
  world.client().post('/auth/verify-code', { email: address, code, totp: undefined });

/** The code of the last mail to the address. */
function codeOf(address = email): string {
  const mail = world.mails.findLast(({ to }) => to === address);
  return /^(\d{6}) is your code/.exec(mail?.text ?? '')![1]!;
}

async function sentCode(address = email): Promise<string> {
  const before = world.mails.length;
  expect((await send(address)).status).toBe(200);
  await expect.poll(() => world.mails.length).toBe(before + 1);
  return codeOf(address);
}

const another = (code: string): string => String((Number(code) + 1) % 1_000_000).padStart(6, '0');

describe('SEC-38: a one-time code', () => {
  it('logs in once, whatever case the address is in, and is stored neither plain nor as a plain hash', async () => {
    const user = await world.user('user', email);
    const code = await sentCode('Ada@Example.test'.toLowerCase());
    const stored = (await world.store.list(keys.all)).entries.map(({ value }) => value).join('\n');
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(code));
    expect(stored).not.toContain(`"${code}"`);
    expect(stored).not.toContain(Buffer.from(digest).toString('hex'));
    expect(stored).not.toContain(Buffer.from(digest).toString('base64url'));
    const answer = await verify(` ${code.slice(0, 3)} ${code.slice(3)}`, 'ADA@example.test');
    expect(answer.status).toBe(200);
    expect(answer.data.user).toMatchObject({ id: user.id, email, role: 'user' });
    expect((await world.client(answer.data.token).get('/auth/me')).status).toBe(200);
    expect((await verify(code)).status).toBe(401);
  });

  it('is accepted once of a hundred at the same time', async () => {
    await world.user('user', email);
    const code = await sentCode();
    const answers = await Promise.all(Array.from({ length: 100 }, () => verify(code)));
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 401, 429]));
    await world.settled();
    expect(world.mirror.tenant('default').list('session')).toHaveLength(2);
  });

  it('is good for ten minutes', async () => {
    await world.user('user', email);
    const code = await sentCode();
    await clock.advance(10 * 60_000 + 1);
    expect((await verify(code)).status).toBe(401);
    const next = await sentCode();
    await clock.advance(10 * 60_000 - 1000);
    expect((await verify(next)).status).toBe(200);
  });

  it('is good for five guesses, also for wrong ones at the same time', async () => {
    await world.user('user', email);
    const code = await sentCode();
    const wrong = await Promise.all(Array.from({ length: 5 }, () => verify(another(code))));
    expect(wrong.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401]);
    expect((await verify(code)).status).toBe(401);
    await clock.advance(15 * 60_000);
    const next = await sentCode();
    for (let n = 0; n < 4; n += 1) await verify(another(next));
    expect((await verify(next)).status).toBe(200);
  });

  it('cancels the one before', async () => {
    await world.user('user', email);
    const first = await sentCode();
    let second = first;
    // one of a million is the same
    while (second === first) {
      await clock.advance(60_000);
      second = await sentCode();
    }
    expect((await verify(first)).status).toBe(401);
    expect((await verify(second)).status).toBe(200);
  });

  it('is sent once a minute and five times an hour', async () => {
    await world.user('user', email);
    await sentCode();
    const early = await send();
    expect([early.status, early.headers.get('retry-after')]).toEqual([429, '60']);
    for (let n = 0; n < 4; n += 1) {
      await clock.advance(60_000);
      await sentCode();
    }
    await clock.advance(60_000);
    const sixth = await send();
    expect([sixth.status, sixth.headers.get('retry-after')]).toEqual([429, String(55 * 60)]);
    await clock.advance(55 * 60_000);
    expect((await send()).status).toBe(200);
  });

  it('is of one address and of one tenant', async () => {
    await world.user('user', email);
    await world.user('user', 'eve@example.test');
    const code = await sentCode();
    expect((await verify(code, 'eve@example.test')).status).toBe(401);
    await world.store.txn({ if: [], then: [{ put: keys.tenant('other'), value: '{}' }] });
    expect((await world.client(undefined, 'other').post('/auth/verify-code', { email, code })).status).toBe(401);
    expect((await verify(code)).status).toBe(200);
  });

  it('is not for somebody who is disabled meanwhile', async () => {
    const user = await world.user('user', email);
    const code = await sentCode();
    await world.repo.change('user', user.id, (draft) => void (draft.disabled = true));
    expect((await verify(code)).status).toBe(401);
  });

  it('wrong ones do not lock the password', async () => {
    await world.user('user', email);
    await sentCode();
    for (let n = 0; n < 12; n += 1) await verify('000000');
    const { status } = await world.client().post('/auth/login', { email, password: 'correct horse battery' });
    expect(status).toBe(200);
  });
});

describe('SEC-39: asking for a code', () => {
  it('answers and writes the same for an address of nobody, of somebody and of somebody who is disabled', async () => {
    await world.user('user', email);
    const gone = await world.user('user', 'gone@example.test');
    await world.repo.change('user', gone.id, (draft) => void (draft.disabled = true));
    const seen = [];
    for (const address of [email, 'gone@example.test', 'nobody@example.test']) {
      await world.settled();
      const before = await world.store.revision();
      const [first, second] = [await send(address), await send(address)];
      const record = world.mirror.tenant('default').list('login_code').at(-1)!.desired;
      seen.push({
        answers: [first.status, first.body.data, second.status, second.body.error?.message],
        writes: (await world.store.revision()) - before,
        record: { ...record, email: '', codes: record.codes.map((it) => ({ ...it, hash: it.hash.length })) },
      });
    }
    expect(seen[1]).toEqual(seen[0]);
    expect(seen[2]).toEqual(seen[0]);
    await expect.poll(() => world.mails.map(({ to }) => to)).toEqual([email]);
  });

  it('needs an address, and knows mail only', async () => {
    const visitor = world.client();
    expect((await visitor.post('/auth/send-code', { email: 'nonsense' })).status).toBe(400);
    expect((await visitor.post('/auth/send-code', { email, method: 'sms' })).status).toBe(400);
    expect((await visitor.post('/auth/send-code', { email })).status).toBe(200);
    expect((await visitor.post('/auth/verify-code', { email, code: 123456 })).status).toBe(400);
  });

  it('is limited for one client, whatever the addresses', async () => {
    await restart({ config: { codeRateLimit: { perMinute: 1, burst: 3 } } });
    const ask = (n: number) => world.client().post('/auth/send-code', { email: `a${n}@example.test` });
    const answers = [await ask(1), await ask(2), await ask(3), await ask(4)];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(Number(answers[3]!.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('is answered also when the mail cannot be sent', async () => {
    await restart({
      mailer: { send: () => Promise.reject(new Error('Cannot send mail as 500 wait already')) },
    });
    await world.user('user', email);
    expect((await world.client().post('/auth/send-code', { email })).status).toBe(200);
  });
});

describe('an invited address', () => {
  const invite = (fields: Partial<DesiredOf<'invite'>>) =>
    world.create('invite', crypto.randomUUID(), {
      email: 'Ada@example.test',
      role: 'user',
      invited_by: crypto.randomUUID(),
      expires_at: new Date(clock.now().getTime() + 7 * 86_400_000).toISOString(),
      state: 'pending',
      ...fields,
    });
  const users = () => world.mirror.tenant('default').list('user');

  it('gets an account of the invited role, without a password, and may then set one', async () => {
    const boss = await world.user('superadmin');
    const { meta } = await invite({ role: 'admin', invited_by: boss.id });
    const answers = await sentCode('Ada@example.test').then((code) =>
      Promise.all(Array.from({ length: 10 }, () => verify(code))),
    );
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    expect(won[0]!.data.user).toMatchObject({ email: 'Ada@example.test', role: 'admin' });
    await world.settled();
    expect(users()).toHaveLength(2);
    expect(world.mirror.tenant('default').get('invite', meta.id)?.desired).toMatchObject({
      state: 'accepted',
      accepted_by: won[0]!.data.user.id,
    });
    const ada = world.client(won[0]!.data.token);
    expect((await ada.get('/auth/me')).data.has_password).toBe(false);
    expect((await ada.post('/auth/me/set-initial-password', { password: 'a long enough one 7' })).status).toBe(200);
    const login = await world.client().post('/auth/login', { email, password: 'a long enough one 7' });
    expect(login.status).toBe(200);
  });

  it('of a project gets the account of a user and keeps its invite', async () => {
    const boss = await world.user('superadmin');
    const { project } = await world.place(boss);
    const { meta } = await invite({ role: 'admin', invited_by: boss.id, project_id: project });
    const answer = await verify(await sentCode('Ada@example.test'));
    expect(answer.data.user.role).toBe('user');
    await world.settled();
    expect(world.mirror.tenant('default').get('invite', meta.id)?.desired.state).toBe('pending');
  });

  it.each([
    ['has expired', { expires_at: '2029-12-31T00:00:00Z' }, 'superadmin'],
    ['was accepted', { state: 'accepted' }, 'superadmin'],
    ['is of somebody who may not give the role any more', { role: 'admin' }, 'admin'],
    ['is of somebody who may not invite any more', {}, 'user'],
  ] as const)('gets none by an invite that %s', async (_, fields, role) => {
    const inviter = await world.user(role);
    await invite({ invited_by: inviter.id, ...fields });
    expect((await send()).status).toBe(200);
    expect((await verify('000000')).status).toBe(401);
    expect([world.mails, users().length]).toEqual([[], 1]);
  });

  it('that is disabled gets none', async () => {
    const boss = await world.user('superadmin');
    const ada = await world.user('user', email);
    await world.repo.change('user', ada.id, (draft) => void (draft.disabled = true));
    await invite({ role: 'admin', invited_by: boss.id });
    expect((await send()).status).toBe(200);
    expect((await verify('000000')).status).toBe(401);
    expect(world.mails).toEqual([]);
  });
});
