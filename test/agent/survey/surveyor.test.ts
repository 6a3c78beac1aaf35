import { beforeEach, describe, expect, it } from 'vitest';
import { Survey, SurveyedValues, surveyLimits, surveyTiming, valuesLimits } from '../../../agent-protocol/survey.ts';
import { MockEngine } from '../../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import type { ContainerRuntime, ContainerSpec, Foreign } from '../../../agent/runtime/runtime.ts';
import { Surveyor } from '../../../agent/survey/surveyor.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { surveyed, volumeOf } from '../../harness/surveyed.ts';

const signal = (): AbortSignal => new AbortController().signal;
const images = { isShared: (name: string) => name === 'shared:1' };

let clock: FakeClock;
let engine: MockEngine;
beforeEach(() => {
  clock = new FakeClock();
  engine = new MockEngine(clock);
});

function spec(name: string, changes: Partial<ContainerSpec> = {}): ContainerSpec {
  return {
    name,
    image: 'web:1',
    labels: {},
    env: {},
    networks: [{ name: 'theirs', aliases: [] }],
    restart: 'unless-stopped',
    ...changes,
  };
}

type Asked = Pick<ContainerRuntime, 'foreign' | 'foreignValues' | 'volumeUsage'>;

/** What an engine answers that has these. */
function having(found: Partial<Foreign>): Asked {
  return {
    foreign: async () => ({ containers: [], volumes: [], truncated: false, ...found }),
    foreignValues: async () => [],
    volumeUsage: async () => 1,
  };
}

describe('a survey', () => {
  it('has what no agent made, by name what its variables are called, and no value of them', async () => {
    const assignment = crypto.randomUUID();
    const own = { [labels.server]: 's', [labels.assignment]: assignment };
    engine.volumes.ensure('theirs', {});
    engine.volumes.ensure('made', { [labels.server]: 's' });
    engine.volumes.ensure('sp-vol-put-back', {});
    engine.volumes.get('theirs')?.files.set('/rows', 'x'.repeat(100));
    await engine.foreign(spec(`sp-web-${assignment.slice(0, 8)}`, { labels: own }));
    await engine.foreign(spec('copied-labels', { labels: own }));
    await engine.foreign(
      spec('shop-web-1', {
        image: 'shared:1',
        labels: { 'com.docker.compose.project': 'shop', password: 'hunter2' },
        env: { DATABASE_URL: 'hunter2' },
        command: ['serve', '--token=hunter2'],
        mounts: [{ type: 'volume', volume: 'theirs', path: '/data', readOnly: false }],
        memoryBytes: 1024 ** 3,
        user: '1000',
      }),
    );
    const surveyor = new Surveyor({ runtime: mockRuntime(engine), images, clock });
    const survey = Survey.parse(await surveyor.survey(signal()));
    expect(JSON.stringify(survey)).not.toContain('hunter2');
    expect(survey.containers.map(({ name }) => name)).toEqual(['copied-labels', 'shop-web-1']);
    expect(survey.containers[1]).toMatchObject({
      state: 'running',
      image: { name: 'shared:1', is_here: true, is_shared: true },
      labels: { 'com.docker.compose.project': 'shop' },
      env: ['DATABASE_URL'],
      mounts: [{ type: 'volume', source: 'theirs', path: '/data', read_only: false }],
      networks: ['theirs'],
      restart: 'unless-stopped',
      memory_bytes: 1024 ** 3,
      settings: [{ name: 'user', value: '1000' }],
    });
    expect(survey.containers[0]?.image.is_shared).toBe(false);
    expect(survey.volumes).toEqual([{ name: 'theirs', driver: 'local', is_anonymous: false, bytes: 100 }]);
    expect(survey.truncated).toBe(false);
  });

  it('changes nothing on the engine', async () => {
    await engine.foreign(spec('web'));
    const before = engine.journal.length;
    await new Surveyor({ runtime: mockRuntime(engine), images, clock }).survey(signal());
    expect(engine.journal.slice(before)).toEqual([]);
  });

  it('that is asked for twice at once looks once, and each of the two can leave', async () => {
    let looks = 0;
    const answer = Promise.withResolvers<void>();
    const runtime = having({});
    const foreign = async (): Promise<Foreign> => {
      looks += 1;
      await answer.promise;
      return runtime.foreign(signal());
    };
    const surveyor = new Surveyor({ runtime: { ...runtime, foreign }, images, clock });
    const leaving = new AbortController();
    const left = surveyor.survey(leaving.signal);
    const stayed = surveyor.survey(signal());
    leaving.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    answer.resolve();
    expect(await stayed).toEqual({ containers: [], volumes: [], truncated: false });
    expect(looks).toBe(1);
    await surveyor.survey(signal());
    expect(looks).toBe(2);
  });

  it('of an engine that hangs ends with what to do', async () => {
    const runtime = { ...having({}), foreign: () => new Promise<never>(() => undefined) };
    const asked = expect(new Surveyor({ runtime, images, clock }).survey(signal())).rejects.toMatchObject({
      code: 'runtime_unavailable',
      message: expect.stringContaining('did not answer within 15 s'),
    });
    await clock.advance(0);
    await clock.advance(surveyTiming.surveyMs);
    await asked;
  });

  it('tells volumes without their size that cannot be measured or take too long, those in use first', async () => {
    const containers = [surveyed('web', { mounts: [{ type: 'volume', source: 'c', path: '/c', read_only: false }] })];
    const runtime: Asked = {
      ...having({ containers, volumes: ['a', 'b', 'c', 'd'].map((name) => volumeOf(name)) }),
      volumeUsage: async (name) => {
        if (name === 'a') throw new Error('cannot be read');
        return name === 'b' ? new Promise<never>(() => undefined) : 7;
      },
    };
    const surveying = new Surveyor({ runtime, images, clock }).survey(signal());
    await clock.advance(0);
    await clock.advance(surveyTiming.measureMs);
    const { volumes } = await surveying;
    expect(volumes.map(({ name, bytes }) => [name, bytes])).toEqual([
      ['c', 7],
      ['a', undefined],
      ['b', undefined],
      ['d', undefined],
    ]);
  });

  it('fits into a frame, and says what it left out', async () => {
    const env = Array.from({ length: surveyLimits.variables }, (_, n) => `NAME_${n}_${'x'.repeat(100)}`);
    const containers = Array.from({ length: 100 }, (_, n) => surveyed(`web-${n}`, { env }));
    const surveyor = new Surveyor({ runtime: having({ containers }), images, clock });
    const survey = Survey.parse(await surveyor.survey(signal()));
    expect(Buffer.byteLength(JSON.stringify(survey))).toBeLessThan(1024 * 1024);
    expect(survey.truncated).toBe(true);
    expect(survey.containers.length).toBeGreaterThan(5);
    expect(survey.containers[0]?.name).toBe('web-0');
  });
});

describe('values of variables', () => {
  it('are those of the containers that are asked for, and never of what an agent made', async () => {
    const assignment = crypto.randomUUID();
    const env = { TOKEN: 'hunter2', EMPTY: '' };
    const own = { [labels.server]: 's', [labels.assignment]: assignment };
    const made = await engine.foreign(spec(`sp-web-${assignment.slice(0, 8)}`, { labels: own, env }));
    const asked = await engine.foreign(spec('web', { env }));
    await engine.foreign(spec('other', { env }));
    const surveyor = new Surveyor({ runtime: mockRuntime(engine), images, clock });
    const gone = crypto.randomUUID();
    expect(await surveyor.values([made.id, asked.id, gone], signal())).toEqual({ containers: [{ id: asked.id, env }] });
  });

  it('fit into a frame: a container whose values do not is told without them', async () => {
    const big = { BIG: 'x'.repeat(valuesLimits.bytes) };
    const found = [
      { id: 'big', env: big },
      { id: 'small', env: { A: 'b' } },
    ];
    const runtime = { ...having({}), foreignValues: async () => found };
    const values = SurveyedValues.parse(await new Surveyor({ runtime, images, clock }).values(['big'], signal()));
    expect(values).toEqual({ containers: [{ id: 'big' }, { id: 'small', env: { A: 'b' } }] });
  });

  it('of an engine that hangs end with what to do, and those of a caller who left at once', async () => {
    const runtime = { ...having({}), foreignValues: () => new Promise<never>(() => undefined) };
    const surveyor = new Surveyor({ runtime, images, clock });
    const leaving = new AbortController();
    const left = surveyor.values(['a'], leaving.signal);
    leaving.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    const asked = expect(surveyor.values(['a'], signal())).rejects.toMatchObject({
      code: 'runtime_unavailable',
      message: expect.stringContaining('did not answer within 10 s'),
    });
    await clock.advance(surveyTiming.valuesMs);
    await asked;
  });
});
