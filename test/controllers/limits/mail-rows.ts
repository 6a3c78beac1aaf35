import { createHash } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { inviteController } from '../../../controllers/invite/reconcile.ts';
import { Mailer } from '../../../controllers/mail/mailer.ts';
import type { Delivery } from '../../../controllers/mail/mailer.ts';
import type { Context, Controller } from '../../../controllers/runtime/controller.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';
import { id, openRig } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';
import { day, from, hour, minute, second, upTo } from './row.ts';
import type { Rows } from './row.ts';
import { hang, write } from './scenes.ts';

type Send = (attempt: number, signal: AbortSignal) => Promise<void>;

/** The controller, and how often it has asked for a mail to be sent; `send` says what becomes of each. */
function inviting(send: Send): { controller: Controller<'invite'>; asked: () => number } {
  let asked = 0;
  let made = 0;
  const controller = inviteController({
    mailer: { send: (_, signal) => send(++asked, signal) },
    isOnlyLogged: false,
    publicUrl: 'https://setpoint.example',
    bytes: (count) => Buffer.alloc(count, `token ${made++}`),
  });
  return { controller, asked: () => asked };
}

const invite: DesiredOf<'invite'> = {
  email: 'bob@example.test',
  role: 'user',
  invited_by: id('ann'),
  expires_at: '2031-01-01T00:00:00.000Z',
  state: 'pending',
};

/** An invite whose mails meet `send`. */
async function withInvite<T>(send: Send, then: (rig: Rig, asked: () => number) => Promise<T>): Promise<T> {
  const { controller, asked } = inviting(send);
  await using rig = await openRig({ controllers: [controller] });
  const unit = rig.repo.begin();
  unit.create('invite', id('invite'), invite);
  await unit.commit();
  await settle(50);
  return await then(rig, asked);
}

const refuse = (): Promise<never> => Promise.reject(new Error('no route'));

/** Asks the controller itself, about more invites than a store need have. */
async function asking<T>(ask: (it: ReadonlyResource<'invite'>, ctx: Context) => Promise<T>): Promise<T> {
  const asked = Promise.withResolvers<T>();
  const controller: Controller<'invite'> = {
    ...inviting(refuse).controller,
    async reconcile(it, ctx) {
      await ask(it, ctx).then(asked.resolve, asked.reject);
      return { observed: { token_hashes: [] }, conditions: [], next: { settled: true } };
    },
  };
  await using rig = await openRig({ controllers: [controller], strict: false });
  await write(rig, (unit) => unit.create('invite', id('invite'), invite));
  return await asked.promise;
}

function withTokens(it: ReadonlyResource<'invite'>, token_hashes: readonly string[]): ReadonlyResource<'invite'> {
  return { ...it, observed: { token_hashes, observedGeneration: 1, conditions: [] } };
}

const invites: Rows<'invites'> = {
  attempts: upTo(12, (n) =>
    withInvite(
      (attempt) => (attempt < n ? refuse() : Promise.resolve()),
      async (rig, asked) => {
        await rig.clock.advance(day);
        return asked() === n;
      },
    ),
  ),
  firstPauseMs: from(10 * second, (n) =>
    withInvite(refuse, async (rig, asked) => {
      await rig.clock.advance(n);
      return asked() === 2;
    }),
  ),
  maxPauseMs: from(hour, (n) =>
    withInvite(refuse, async (rig, asked) => {
      const untilTenth = 10 * second * (2 ** 9 - 1);
      await rig.clock.advance(untilTenth);
      if (asked() !== 10) throw new Error(`The mail was tried ${asked()} times by then`);
      await rig.clock.advance(n);
      return asked() === 11;
    }),
  ),
  sendMs: from(50 * second, (n) => {
    let isOver = false;
    return withInvite(
      (_, signal) => {
        signal.addEventListener('abort', () => (isOver = true));
        return hang(signal);
      },
      async (rig) => {
        await rig.clock.advance(n);
        return isOver;
      },
    );
  }),
  tokens: upTo(20_000, (n) => {
    const { controller, asked } = inviting(() => Promise.resolve());
    return asking(async (it, ctx) => {
      const first = await controller.reconcile(it, ctx);
      for (let m = 1; m < n; m++) await controller.reconcile({ ...it, meta: { ...it.meta, id: `other ${m}` } }, ctx);
      await controller.reconcile(withTokens(it, first.observed.token_hashes), ctx);
      return asked() === 1;
    });
  }),
  goodTokens: upTo(3, (n) => {
    const { controller } = inviting(() => Promise.resolve());
    const before = Array.from({ length: n - 1 }, (_, m) => createHash('sha256').update(`earlier ${m}`).digest('hex'));
    return asking(async (it, ctx) => {
      const { observed } = await controller.reconcile(withTokens(it, before), ctx);
      return observed.token_hashes.length === n;
    });
  }),
};

interface Post {
  clock: FakeClock;
  /** Hands so many mails over, and lets follow what waits for no time. */
  send: (count?: number) => Promise<void>;
  /** What became of them. */
  ends: { sent: number; failed: number };
  close: () => void;
}

/** A mailer with the usual limits. */
async function mailing<T>(delivery: Delivery, then: (post: Post) => Promise<T>): Promise<T> {
  const clock = new FakeClock();
  const log = pino({ level: 'silent' });
  const mailer = new Mailer({ delivery, clock, id: () => 'message', log, registry: new Registry() });
  const ends = { sent: 0, failed: 0 };
  let closing: Promise<void> | undefined;
  const close = (): void => void (closing ??= mailer[Symbol.asyncDispose]());
  try {
    return await then({
      clock,
      async send(count = 1) {
        for (let n = 0; n < count; n++)
          void mailer.send({ to: 'ada@example.test', subject: 'A subject', text: 'A text' }, never).then(
            () => ends.sent++,
            () => ends.failed++,
          );
        await settle();
      },
      ends,
      close,
    });
  } finally {
    close();
    await clock.advance(minute);
    await closing;
  }
}

const never = new AbortController().signal;
const hanging: Delivery = (_, signal) => hang(signal);

const mail: Rows<'mail'> = {
  atOnce: upTo(2, (n) => {
    let begun = 0;
    const delivery: Delivery = (_, signal) => {
      begun++;
      return hang(signal);
    };
    return mailing(delivery, async ({ send }) => {
      await send(n);
      return begun === n;
    });
  }),
  waiting: upTo(500, (n) =>
    mailing(hanging, async ({ send, ends }) => {
      await send(2);
      await send(n);
      return ends.failed === 0;
    }),
  ),
  deadlineMs: from(30 * second, (n) => {
    let isOver = false;
    const delivery: Delivery = (_, signal) => {
      signal.addEventListener('abort', () => (isOver = true));
      return hang(signal);
    };
    return mailing(delivery, async ({ clock, send }) => {
      await send();
      await clock.advance(n);
      return isOver;
    });
  }),
  attempts: upTo(3, (n) => {
    let attempt = 0;
    return mailing(
      () => (++attempt < n ? refuse() : Promise.resolve()),
      async ({ clock, send, ends }) => {
        await send();
        await clock.advance(hour);
        return ends.sent === 1;
      },
    );
  }),
  pauseMs: from(5 * second, (n) => {
    let attempts = 0;
    const delivery: Delivery = () => {
      attempts++;
      return refuse();
    };
    return mailing(delivery, async ({ clock, send }) => {
      await send();
      await clock.advance(n);
      return attempts === 2;
    });
  }),
  drainMs: from(5 * second, (n) =>
    mailing(hanging, async ({ clock, send, ends, close }) => {
      await send();
      close();
      await clock.advance(n);
      return ends.failed === 1;
    }),
  ),
};

export const mailRows = { invites, mail };
