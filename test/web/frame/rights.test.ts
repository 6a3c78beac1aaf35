import { effect, signal } from '@preact/signals';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Rights } from '../../../web/frame/rights.ts';
import type { Rank } from '../../../web/frame/rights.ts';
import type { User } from '../../../web/model.ts';

const login = { tenant: 'acme', token: 'secret', email: 'a@example.com' };

/** What the server answers to the next questions; without any left, the last of them. */
let answers: (() => Promise<Response>)[];
let asked: number;

const role = (it: string) => () =>
  Promise.resolve(Response.json({ success: true, data: [{ user_id: 'a', role: it }], meta: {} }));
const refused = (status: number) => () =>
  Promise.resolve(Response.json({ success: false, error: { message: 'no' } }, { status }));

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  vi.stubGlobal('location', { href: 'https://setpoint.test/' });
  asked = 0;
  vi.stubGlobal('fetch', () => {
    asked += 1;
    return (answers.length > 1 ? answers.shift() : answers[0])?.();
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** What a page shows that is drawn again with the rank. */
function shown(): { rights: Rights; ranks: (Rank | undefined)[]; [Symbol.dispose]: () => void } {
  const me = signal<User | undefined>({ id: 'a', email: login.email, role: 'user' } as User); // what rights look at
  const rights = new Rights(login, me);
  const ranks: (Rank | undefined)[] = [];
  const stop = effect(() => void ranks.push(rights.rankIn('p')));
  return { rights, ranks, [Symbol.dispose]: stop };
}

describe('the rank of the reader in a project', () => {
  it('is asked for again when it may be another one, and counts until then', async () => {
    answers = [role('viewer'), role('member')];
    using page = shown();
    await vi.waitFor(() => expect(page.ranks.at(-1)).toBe('viewer'));
    page.rights.askAgain();
    await vi.waitFor(() => expect(page.ranks.at(-1)).toBe('member'));
    expect([new Set(page.ranks), asked]).toEqual([new Set([undefined, 'viewer', 'member']), 2]);
    expect(page.ranks.lastIndexOf(undefined)).toBe(0);
  });

  it('is asked for until there is an answer', async () => {
    answers = [refused(503), role('admin')];
    using page = shown();
    await vi.waitFor(() => expect(asked).toBe(1));
    await vi.advanceTimersByTimeAsync(1000);
    await vi.waitFor(() => expect(page.ranks.at(-1)).toBe('admin'));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toBe(2);
  });

  it('is unknown once the server has refused to tell it', async () => {
    answers = [role('viewer'), refused(403)];
    using page = shown();
    await vi.waitFor(() => expect(page.ranks.at(-1)).toBe('viewer'));
    page.rights.askAgain();
    await vi.waitFor(() => expect(page.ranks.at(-1)).toBeUndefined());
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toBe(2);
  });
});
