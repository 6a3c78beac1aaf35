import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { BuildItem, RunBuild } from '../../../agent/tasks/build-task.ts';
import { pinnedBuild } from '../../../agent/tasks/pinned-build.ts';
import { Results } from '../../../agent/tasks/results.ts';
import { buildSpec } from '../../harness/wire-items.ts';
import { service } from '../agent-world.ts';
import { until } from '../../harness/until.ts';

const progress = { line: () => undefined, checkedOut: () => undefined, at: () => undefined };

test('a build that the end of the agent interrupted begins again of its commit, and its next attempt of the head', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-pins-'));
  const item: BuildItem = { ...service(), spec: buildSpec() };
  const wanted: (string | undefined)[] = [];
  const build: RunBuild = async ({ spec }, { checkedOut }) => {
    wanted.push(spec.commit);
    const source = { commit: spec.commit ?? `head${wanted.length}`, commitMessage: 'm' };
    checkedOut(source);
    return { image: 'sha256:1', ...source };
  };
  const open = () => Results.open(join(folder, 'results'), Buffer.alloc(32));
  const once = (results: Results, attempt: number) =>
    pinnedBuild(build, { results, log: pino({ level: 'silent' }) })(
      { ...item, spec: { ...item.spec, attempt } },
      progress,
      new AbortController().signal,
    );
  try {
    {
      await using results = await open();
      await once(results, 1);
      await until('it is noted', async () => results.pinOf(item.id, 1) === 'head1');
    }
    await using results = await open();
    await once(results, 1);
    await once(results, 2);
    expect(wanted).toEqual([undefined, 'head1', undefined]);
    await until('it is noted', async () => results.pinOf(item.id, 2) === 'head3');
    await results.forget(item.id);
    expect(results.pinOf(item.id, 2)).toBeUndefined();
  } finally {
    await rm(folder, { recursive: true });
  }
});
