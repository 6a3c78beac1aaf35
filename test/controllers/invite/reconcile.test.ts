import { createHash, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { inviteController } from '../../../controllers/invite/reconcile.ts';
import { DeliveryError } from '../../../controllers/mail/mailer.ts';
import type { Mail } from '../../../controllers/mail/mailer.ts';
import type { AnyController } from '../../../controllers/runtime/graph.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { keys } from '../../../store/keys.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { FaultyStore } from '../../harness/faulty-store.ts';
import { createProject, id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

const publicUrl = 'https://setpoint.example';
const day = 24 * 3_600_000;

interface Post {
  mails: Mail[];
  /** What the next mails meet; empty: they are taken over. */
  faults: Error[];
  controller: AnyController;
}

function post({ isOnlyLogged = false } = {}): Post {
  const mails: Mail[] = [];
  const faults: Error[] = [];
  const mailer = {
    async send(mail: Mail): Promise<void> {
      const fault = faults.shift();
      if (fault !== undefined) throw fault;
      mails.push(mail);
    },
  };
  return { mails, faults, controller: inviteController({ mailer, isOnlyLogged, publicUrl, bytes: randomBytes }) };
}

async function invite(rig: Rig, changes: Partial<DesiredOf<'invite'>> = {}): Promise<void> {
  const unit = rig.repo.begin();
  unit.create('user', id('ann'), desiredState('user', { email: 'ann@example.test', role: 'user' }));
  unit.create('invite', id('invite'), {
    project_id: id('shop'),
    email: 'bob@example.test',
    role: 'viewer',
    invited_by: id('ann'),
    expires_at: new Date(rig.clock.now().getTime() + 7 * day).toISOString(),
    state: 'pending',
    ...changes,
  });
  expect((await unit.commit()).committed).toBe(true);
  await rig.rest();
}

async function delivered(rig: Rig): Promise<[string, string] | undefined> {
  const it = await rig.repo.get('invite', id('invite'));
  const condition = it?.observed?.conditions.find(({ type }) => type === 'Delivered');
  return condition && [condition.status, condition.reason];
}

async function hashes(rig: Rig): Promise<string[]> {
  return (await rig.repo.get('invite', id('invite')))?.observed?.token_hashes ?? [];
}

function tokenIn(mail: Mail): string {
  return /\/invites\/([\w-]{43})\n/.exec(mail.text)?.[1] ?? '';
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

test('an invite is mailed once, and only the hash of its token is kept', async () => {
  const { mails, controller } = post();
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'shop');
  await invite(rig);
  expect(mails).toHaveLength(1);
  const [mail] = mails;
  expect(mail).toMatchObject({ to: 'bob@example.test', subject: 'Invitation to a project' });
  expect(mail!.text).toContain('ann@example.test invites you');
  const token = tokenIn(mail!);
  expect(mail!.text).toContain(`${publicUrl}/console#/${tenant}/invites/${token}`);
  expect(await hashes(rig)).toEqual([hashOf(token)]);
  expect(rig.mirror.tenant(tenant).by('invite', 'token', hashOf(token))).toHaveLength(1);
  expect(await delivered(rig)).toEqual(['true', 'Sent']);
  const { entries } = await rig.store.list(keys.all);
  expect(JSON.stringify(entries)).not.toContain(token);

  const before = await rig.store.revision();
  rig.controllers.resync();
  await rig.clock.advance(2 * limits.reconcile.resyncMs);
  await rig.rest();
  expect(mails).toHaveLength(1);
  expect(await rig.store.revision()).toBe(before);
});

test('the hash of a token is stored before its mail goes out', async () => {
  let known: boolean | undefined;
  let rig: Rig | undefined;
  const mailer = {
    async send(mail: Mail): Promise<void> {
      known = (await hashes(rig!)).includes(hashOf(tokenIn(mail)));
    },
  };
  await using made = await openRig({
    controllers: [inviteController({ mailer, isOnlyLogged: false, publicUrl, bytes: randomBytes })],
  });
  rig = made;
  await createProject(rig.repo, 'shop');
  await invite(rig);
  expect(known).toBe(true);
});

test('a mail that is not taken over is tried again with growing pauses, with the same token', async () => {
  const { mails, faults, controller } = post();
  faults.push(new Error('no route'), new Error('no route'));
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'shop');
  await invite(rig);
  expect(await delivered(rig)).toEqual(['false', 'NotSent']);
  const [hash] = await hashes(rig);
  await rig.clock.advance(limits.invites.firstPauseMs);
  await rig.rest();
  expect(faults).toEqual([]);
  await rig.clock.advance(limits.invites.firstPauseMs);
  await rig.rest();
  expect(mails).toEqual([]);
  await rig.clock.advance(limits.invites.firstPauseMs);
  await rig.rest();
  expect(mails.map((mail) => hashOf(tokenIn(mail)))).toEqual([hash]);
  expect(await delivered(rig)).toEqual(['true', 'Sent']);
});

test('a mail server that does not answer counts as one that did not take the mail', async () => {
  let asked = 0;
  const mailer = {
    send: (_mail: Mail, signal: AbortSignal) =>
      new Promise<void>((_resolve, reject) => {
        asked += 1;
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      }),
  };
  await using rig = await openRig({
    controllers: [inviteController({ mailer, isOnlyLogged: false, publicUrl, bytes: randomBytes })],
  });
  await createProject(rig.repo, 'shop');
  const unit = rig.repo.begin();
  unit.create('invite', id('invite'), {
    project_id: id('shop'),
    email: 'bob@example.test',
    role: 'viewer',
    invited_by: id('ann'),
    expires_at: new Date(rig.clock.now().getTime() + 7 * day).toISOString(),
    state: 'pending',
  });
  await unit.commit();
  await rig.clock.advance(1000);
  expect([asked, await delivered(rig)]).toEqual([1, ['false', 'Sending']]);
  await rig.clock.advance(limits.invites.sendMs);
  await rig.rest();
  expect(await delivered(rig)).toEqual(['false', 'NotSent']);
  await rig.clock.advance(day);
  await rig.clock.advance(limits.invites.sendMs);
  await rig.rest();
  expect([asked, await delivered(rig)]).toEqual([limits.invites.attempts, ['false', 'GivenUp']]);
});

test('a mail that is refused for good is not sent again, and one that never goes is given up', async () => {
  for (const [fault, reason, tries] of [
    [new DeliveryError('550 no such mailbox', true), 'Refused', 1],
    [new Error('no route'), 'GivenUp', limits.invites.attempts],
  ] as const) {
    const { mails, faults, controller } = post();
    faults.push(...Array.from({ length: 100 }, () => fault));
    await using rig = await openRig({ controllers: [controller] });
    await createProject(rig.repo, 'shop');
    await invite(rig);
    await rig.clock.advance(day);
    await rig.rest();
    expect(await delivered(rig)).toEqual(['false', reason]);
    expect(100 - faults.length).toBe(tries);
    expect(mails).toEqual([]);
  }
});

test('who takes over makes a new token, and the earlier ones stay good up to a bound', async () => {
  const first = post();
  first.faults.push(...Array.from({ length: 100 }, () => new Error('no route')));
  await using rig = await openRig({ controllers: [first.controller] });
  await createProject(rig.repo, 'shop');
  await invite(rig);
  let leader = rig.controllers;
  const seen = await hashes(rig);
  for (let n = 0; n < 3; n += 1) {
    const next = post();
    if (n < 2) next.faults.push(...Array.from({ length: 100 }, () => new Error('no route')));
    await leader[Symbol.asyncDispose]();
    leader = rig.replica(`replica ${n}`, [next.controller]);
    await rig.clock.advance(limits.leader.jitterMs + 5000);
    await rig.rest();
    const now = await hashes(rig);
    seen.push(now.at(-1)!);
    expect(now).toEqual(seen.slice(-limits.invites.goodTokens));
    if (n === 2) expect(next.mails.map((mail) => hashOf(tokenIn(mail)))).toEqual([seen.at(-1)]);
  }
  expect(new Set(seen).size).toBe(4);
});

test('a crash between the mail and its record mails again rather than never', async () => {
  const { mails, controller } = post();
  let faulty: FaultyStore | undefined;
  await using rig = await openRig({
    controllers: [controller],
    wrap: (store) => (faulty = new FaultyStore(store)),
  });
  await createProject(rig.repo, 'shop');
  await rig.rest();
  // the first of the controller stores the hash, the second what became of the mail
  faulty!.at(faulty!.transactions + 2, 'fail-before-commit');
  await invite(rig);
  await rig.clock.advance(60_000);
  await rig.rest();
  expect(await delivered(rig)).toEqual(['true', 'Sent']);
  // the same process remembers that it went out
  expect(mails).toHaveLength(1);
});

test('nothing is mailed for an invite that nobody waits for', async () => {
  for (const changes of [
    { state: 'accepted' },
    { expires_at: '2029-01-01T00:00:00Z' },
    { project_id: id('gone') },
  ] as const) {
    const { mails, controller } = post();
    await using rig = await openRig({ controllers: [controller] });
    await createProject(rig.repo, 'shop');
    await invite(rig, changes);
    await rig.clock.advance(day);
    expect(mails).toEqual([]);
    expect(await hashes(rig)).toEqual([]);
  }
});

test('an invite to the tenant says so', async () => {
  const { mails, controller } = post();
  await using rig = await openRig({ controllers: [controller] });
  await invite(rig, { project_id: undefined, role: 'user' });
  expect(mails[0]).toMatchObject({ subject: `Invitation to the tenant ${tenant}` });
});

test('an invite without a mail server says where its mail is', async () => {
  const { mails, controller } = post({ isOnlyLogged: true });
  await using rig = await openRig({ controllers: [controller] });
  await createProject(rig.repo, 'shop');
  await invite(rig);
  expect(mails).toHaveLength(1);
  expect(await delivered(rig)).toEqual(['false', 'OnlyLogged']);

  rig.controllers.resync();
  await rig.clock.advance(2 * limits.reconcile.resyncMs);
  expect(mails).toHaveLength(1);
});
