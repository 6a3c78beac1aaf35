import { describe, expect, it } from 'vitest';
import { diagnosisTiming, Diagnosis, Healing } from '../../../agent-protocol/diagnosis.ts';
import type { MachineCheck } from '../../../agent-protocol/diagnosis.ts';
import type { Action, Check, Finding } from '../../../agent/diagnose/check.ts';
import { Examiner } from '../../../agent/diagnose/examiner.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { quietWorld } from './quiet-world.ts';

const { signal } = new AbortController();
const never = new Promise<never>(() => undefined);
const good: Finding = { status: 'pass', message: 'Good' };
const bad: Finding = { status: 'fail', message: 'Bad', remedy: 'Mend it', isHealable: true };

function examinerOf(clock: FakeClock, ...checks: Check[]): Examiner {
  return new Examiner({ checks, world: quietWorld, facts: () => quietWorld.engine(), clock });
}

function check(name: MachineCheck, look: Check['look'], heal?: Check['heal']): Check {
  return { name, look, ...(heal !== undefined && { heal }) };
}

const done = async (): Promise<Action[]> => [{ status: 'done', target: 'x', message: 'Removed' }];

describe('an examination', () => {
  it('tells of a check that hangs, and the others do not wait for it', async () => {
    const clock = new FakeClock();
    const seen: MachineCheck[] = [];
    const examiner = examinerOf(
      clock,
      check('engine', () => never),
      check('disk', async () => (seen.push('disk'), good)),
    );
    const examining = examiner.examine(signal);
    await clock.advance(0);
    expect(seen).toEqual(['disk']);
    await clock.advance(4000);
    const { checks } = await examining;
    expect(checks).toMatchObject([
      { name: 'engine', status: 'warn', message: 'The check did not answer within 4 s', auto_fixable: false },
      { name: 'disk', status: 'pass', message: 'Good', remediation: null, auto_fixable: false },
    ]);
  });

  it('asks others than the machine once that is examined, or does not answer', async () => {
    const clock = new FakeClock();
    const seen: MachineCheck[] = [];
    const looking = Promise.withResolvers<Finding>();
    const disk = check('disk', () => (seen.push('disk'), looking.promise));
    const dns: Check = { ...check('dns', async () => (seen.push('dns'), good)), isOutside: true };
    const first = examinerOf(clock, dns, disk).examine(signal);
    await clock.advance(500);
    expect(seen).toEqual(['disk']);
    looking.resolve(good);
    expect((await first).checks.map(({ name }) => name)).toEqual(['dns', 'disk']);
    const silent = examinerOf(
      clock,
      dns,
      check('disk', () => never),
    ).examine(signal);
    await clock.advance(999);
    expect(seen).toEqual(['disk', 'dns']);
    await clock.advance(1);
    expect(seen).toEqual(['disk', 'dns', 'dns']);
    await clock.advance(3000);
    expect((await silent).checks.map(({ status }) => status)).toEqual(['pass', 'warn']);
  });

  it('ends at its deadline, however many checks hang', async () => {
    const clock = new FakeClock();
    const names = Array.from({ length: 30 }, () => check('engine', () => never));
    const examining = examinerOf(
      clock,
      ...names,
      check('disk', async () => good),
    ).examine(signal);
    await clock.advance(diagnosisTiming.examineMs);
    const { checks } = await examining;
    expect(checks).toHaveLength(31);
    expect(new Set(checks.map(({ status }) => status))).toEqual(new Set(['warn']));
  });

  it('tells of a check that fails in words, and bounds every text', async () => {
    const clock = new FakeClock();
    const long = 'x'.repeat(5000);
    const found = await examinerOf(
      clock,
      check('dns', () => Promise.reject(new Error('The disk is gone'))),
      check('disk', async () => ({ status: 'warn', message: long, remedy: long })),
    ).examine(signal);
    expect(found.checks[0]).toMatchObject({ status: 'warn', message: 'It could not be examined: The disk is gone' });
    expect(Diagnosis.parse(found)).toEqual(found);
  });

  it('that is asked for several times at once looks once, and asks the engine once', async () => {
    const clock = new FakeClock();
    let looked = 0;
    let asked = 0;
    const examiner = new Examiner({
      checks: [check('engine', async (world) => ((looked += 1), await world.engine(), await world.engine(), good))],
      world: quietWorld,
      facts: async () => ((asked += 1), quietWorld.engine()),
      clock,
    });
    await Promise.all([examiner.examine(signal), examiner.examine(signal)]);
    expect([looked, asked]).toEqual([1, 1]);
    await examiner.examine(signal);
    expect([looked, asked]).toEqual([2, 2]);
  });

  it('that its caller leaves goes on for the others', async () => {
    const clock = new FakeClock();
    const looking = Promise.withResolvers<Finding>();
    const examiner = examinerOf(
      clock,
      check('disk', () => looking.promise),
    );
    const leaves = new AbortController();
    const left = examiner.examine(leaves.signal);
    const stays = examiner.examine(signal);
    leaves.abort(new Error('enough'));
    await expect(left).rejects.toThrow('enough');
    looking.resolve(good);
    expect((await stays).checks).toHaveLength(1);
  });
});

describe('healing', () => {
  it('heals what was found, tells what only a person can do, and leaves the rest alone', async () => {
    const found = await examinerOf(
      new FakeClock(),
      check('disk', async () => bad, done),
      check('orphaned_networks', async () => good, done),
      check('memory', async () => ({ status: 'warn', message: 'Little is left', remedy: 'Take more' })),
      check('orphaned_volumes', async () => ({ ...bad, isHealable: false }), done),
    ).heal(undefined, signal);
    expect(found.actions).toEqual([
      { check: 'disk', status: 'done', target: 'x', message: 'Removed' },
      { check: 'memory', status: 'skipped', target: null, message: 'Little is left. Take more' },
      { check: 'orphaned_volumes', status: 'skipped', target: null, message: 'Bad. Mend it' },
    ]);
    expect(Healing.parse(found)).toEqual(found);
  });

  it('heals only what is named', async () => {
    const found = await examinerOf(
      new FakeClock(),
      check('disk', async () => bad, done),
      check('log_storage', async () => bad, done),
      check('memory', async () => bad),
    ).heal(['log_storage'], signal);
    expect(found.actions.map((one) => one.check)).toEqual(['log_storage']);
  });

  it('that is asked for twice at once runs one after the other', async () => {
    const clock = new FakeClock();
    let running = 0;
    let most = 0;
    let isHealed = false;
    const examiner = examinerOf(
      clock,
      check(
        'disk',
        async () => (isHealed ? good : bad),
        async () => {
          most = Math.max(most, (running += 1));
          await Promise.resolve();
          running -= 1;
          isHealed = true;
          return done();
        },
      ),
    );
    const [first, second] = await Promise.all([examiner.heal(undefined, signal), examiner.heal(undefined, signal)]);
    expect(most).toBe(1);
    expect([first.actions.length, second.actions.length]).toEqual([1, 0]);
  });

  it('that hangs or fails is told, and does not stop the healing of the next check', async () => {
    const clock = new FakeClock();
    const healing = examinerOf(
      clock,
      check(
        'disk',
        async () => bad,
        () => never,
      ),
      check(
        'orphaned_networks',
        async () => bad,
        () => Promise.reject(new Error('The engine does not answer')),
      ),
      check('log_storage', async () => bad, done),
    ).heal(undefined, signal);
    await clock.advance(diagnosisTiming.healMs);
    expect((await healing).actions).toMatchObject([
      { check: 'disk', status: 'failed', message: expect.stringContaining('did not end in time') },
      { check: 'orphaned_networks', status: 'failed', message: 'The engine does not answer' },
      { check: 'log_storage', status: 'done' },
    ]);
  });
});
