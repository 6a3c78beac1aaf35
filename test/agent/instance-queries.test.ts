import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import { CommandResult, VolumeUsage } from '../../agent-protocol/messages.ts';
import { AgentWorld, service } from './agent-world.ts';
import { mounting, name, volume } from './volumes/items.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

const signal = (): AbortSignal => AbortSignal.timeout(10_000);

/** The instance of a database whose client answers each query by its last word. */
async function database(): Promise<WireAssignment> {
  world.engine.addImage('db:1', {
    local: true,
    runs: {
      programs: ({ command }) => {
        const [, query = ''] = command;
        if (query === 'hangs') return { takesMs: 60_000 };
        return { exitCode: query === 'fails' ? 2 : 0, output: `${'x'.repeat(10_000)}${query}` };
      },
    },
  });
  await world.start();
  const it = service({}, { image: 'db:1' });
  await world.snapshot(it);
  await world.until('it runs', () => world.container(it)?.state === 'running');
  return it;
}

const ask = (assignment: string, query: string) =>
  world.agent.backend.call(
    { method: 'instance.command', assignment, command: ['client', query], timeout_ms: 5_000 },
    signal(),
  );

describe('a command in an instance', () => {
  test('is answered with its exit code and the end of its output', async () => {
    const { id } = await database();
    const answer = CommandResult.parse(await ask(id, 'works'));
    expect(answer.exit_code).toBe(0);
    expect(answer.output).toMatch(/^x+works$/);
    expect(answer.output).toHaveLength(4096);
    expect(CommandResult.parse(await ask(id, 'fails')).exit_code).toBe(2);
  });

  test('that takes longer than its time has no exit code', async () => {
    const { id } = await database();
    const late = ask(id, 'hangs');
    await world.pass(6_000);
    expect(CommandResult.parse(await late).exit_code).toBeUndefined();
  });

  test('is refused where no container runs', async () => {
    const it = await database();
    await expect(ask(randomUUID(), 'works')).rejects.toMatchObject({ code: 'not_running' });
    await world.delta([{ ...it, generation: 2, run: 'stopped' }]);
    await world.until('it stopped', () => world.container(it)?.state !== 'running');
    await expect(ask(it.id, 'works')).rejects.toMatchObject({ code: 'not_running' });
  });

  test('is refused beyond sixteen at once, and taken again once one has ended', async () => {
    const { id } = await database();
    const all = Array.from({ length: 16 }, () => ask(id, 'hangs'));
    await expect(ask(id, 'works')).rejects.toMatchObject({ code: 'too_many' });
    await world.pass(6_000);
    await Promise.all(all);
    expect(CommandResult.parse(await ask(id, 'works')).exit_code).toBe(0);
  });
});

test('the bytes of a volume are those of its content; of one that is not there nothing is answered', async () => {
  world.engine.addImage('web:1', { local: true, files: { '/data/rows': '12345678' } });
  await world.start();
  const it = mounting();
  await world.snapshot(volume(), it);
  await world.until('it runs', () => world.container(it)?.state === 'running');
  const usage = async (of: string) =>
    VolumeUsage.parse(await world.agent.backend.call({ method: 'volume.usage', volume: of }, signal()));
  expect(await usage(name)).toEqual({ bytes: 8 });
  expect(await usage('sp-vol-none')).toEqual({});
});
