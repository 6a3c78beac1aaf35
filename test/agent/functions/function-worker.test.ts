import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WireAssignment, WireFunction } from '../../../agent-protocol/assignment.ts';
import { FunctionAnswer, FunctionRequest } from '../../../agent-protocol/functions.ts';
import type { Execution } from '../../../agent-protocol/functions.ts';
import { closedGate } from '../../../agent/functions/gate.ts';
import type { Gate } from '../../../agent/functions/gate.ts';
import { mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import type { ImageScript } from '../../../agent/runtime/mock/script.ts';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { AgentWorld, service } from '../agent-world.ts';
import { mounting, name, volume } from '../volumes/items.ts';

let world: AgentWorld;
/** Ports that are open. */
let open: Set<number>;
/** Containers that the engine will make without an answer. */
let answersLost: number;
/** Ids of images by their names, and the other way round. */
const ids = new Map<string, string>();
const names = new Map<string, string>();

function image(name: string, script: ImageScript = {}): void {
  const { id } = world.engine.addImage(name, { local: true, ...script });
  ids.set(name, id);
  names.set(id, name);
}

beforeEach(async () => {
  world = await AgentWorld.create();
  open = new Set();
  image('hello:1');
  image('hello:2');
  image('broken:1', {
    runs: { tcp: () => false, runForMs: 20, exitCode: 1, output: [{ afterMs: 0, text: 'no database\n' }] },
  });
  image('slow:1', { runs: { listenAfterMs: 20_000 } });
  answersLost = 0;
  const gate: Gate = {
    ...closedGate,
    open: async (port) => {
      open.add(port);
      return { [Symbol.asyncDispose]: async () => void open.delete(port) };
    },
  };
  const engine = mockRuntime(world.engine);
  const create: typeof engine.create = async (spec, signal) => {
    const id = await engine.create(spec, signal);
    if (answersLost === 0) return id;
    answersLost -= 1;
    throw new RuntimeFailure('runtime_unavailable', 'The engine did not answer', { retryable: true });
  };
  await world.start({ gate }, { ...engine, create });
});
afterEach(() => world[Symbol.asyncDispose]());

let generation = 0;
function served(
  image: string,
  more: Partial<WireFunction> = {},
  of = service(),
): WireAssignment & { spec: WireFunction } {
  const spec: WireFunction = {
    type: 'function',
    image,
    image_digest: ids.get(image) ?? '',
    version_id: image,
    network: { name: 'shop', aliases: [] },
    timeout_seconds: 30,
    concurrency: 1,
    min_instances: 1,
    max_instances: 2,
    limits: {},
    configuration: { env: {} },
    ...more,
  };
  return { ...of, generation: (generation += 1), spec };
}

/** A volume that all instances may write to. */
const mounts: WireFunction['mounts'] = [{ type: 'volume', volume: name, path: '/data', read_only: false, copy: true }];

const states = (): string[] => world.engine.containers.map(({ imageId, state }) => `${names.get(imageId)} ${state}`);
const isReady = (item: WireAssignment) => () =>
  world.report(item)?.ready === true &&
  world.report(item)?.error === undefined &&
  world.report(item)?.generation === item.generation;

const tries = (): number => world.engine.journal.filter(({ verb }) => verb === 'create').length;

async function serving(): Promise<WireAssignment> {
  const first = served('hello:1');
  await world.snapshot(first);
  await world.until('it serves', isReady(first));
  await world.until('its instance runs', () => states().join('') === 'hello:1 running');
  return first;
}

/** Calls the function as a user does through the control plane, and resolves with the record of the call. */
async function called(item: WireAssignment): Promise<Execution> {
  let record: Execution | undefined;
  const request = FunctionRequest.parse({ method: 'GET', path: '/' });
  const call = { method: 'function.call' as const, function_id: item.workload_id, request };
  const answer = world.agent.backend.call(call, new AbortController().signal);
  void answer.then((it) => (record = FunctionAnswer.parse(it).execution));
  await world.until('the call has ended', () => record !== undefined);
  return record!;
}

/** A function that serves, with a volume that it may write to. */
async function writing(): Promise<{ kept: WireAssignment; item: WireAssignment }> {
  const [kept, item] = [volume(), served('hello:1', { mounts })];
  await world.snapshot(kept, item);
  await world.until('it serves', isReady(item));
  return { kept, item };
}

describe('a function on its server', () => {
  it('is served by the next version once an instance of that one answers', async () => {
    const next = served('hello:2', {}, await serving());
    await world.delta([next]);
    await world.until('it is served', isReady(next));
    expect(world.report(next)?.error).toBeUndefined();
    await world.until('the one before is gone', () => states().join('') === 'hello:2 running');
  });

  it('is served by the version before where no instance of the next one starts, which is tried less and less often', async () => {
    const first = await serving();
    const broken = served('broken:1', {}, first);
    await world.delta([broken]);
    await world.until('it is refused', () => world.report(broken)?.error !== undefined);
    expect(world.report(broken)).toMatchObject({
      generation: broken.generation,
      phase: 'running',
      ready: true,
      error: { code: 'not_started', message: expect.stringContaining('no database') },
    });
    await world.until('nothing of it is left', () => states().join('') === 'hello:1 running');
    const before = tries();
    await world.pass(100_000, 500);
    expect(tries() - before).toBe(4); // after 5, 10, 20 and 40 s
    const again = served('hello:1', {}, first);
    await world.delta([again]);
    await world.until('that is forgotten', isReady(again));
    expect(world.report(again)?.error).toBeUndefined();
    expect(states()).toEqual(['hello:1 running']);
  });

  it('is not ready once no instance of what serves starts, until one has lasted', async () => {
    let works = true;
    image('moody:1', {
      runs: () =>
        works ? {} : { tcp: () => false, runForMs: 20, exitCode: 1, output: [{ afterMs: 0, text: 'no database\n' }] },
    });
    const item = served('moody:1');
    await world.snapshot(item);
    await world.until('it serves', isReady(item));
    await world.pass(20_000, 500);
    works = false;
    world.engine.killByHand(world.engine.containers[0]!.id);
    await world.pass(4_000, 500);
    expect(world.report(item)).toMatchObject({ ready: true }); // one failure may pass
    await world.until('that is told', () => world.report(item)?.ready === false, 60_000);
    expect(world.report(item)).toMatchObject({
      phase: 'running',
      error: { code: 'not_started', message: expect.stringMatching(/^No instance of it starts: .*no database/) },
    });
    works = true;
    await world.until('it serves again', isReady(item), 120_000);
  });

  it('reports an image that was removed, and serves again once it is there', async () => {
    const item = served('hello:1', { min_instances: 0 });
    await world.snapshot(item);
    await world.until('it serves', isReady(item));
    const id = ids.get('hello:1') ?? '';
    world.engine.removeImage(id);
    expect(await called(item)).toMatchObject({ error: { code: 'start_failed' } });
    await world.until('that is told', () => world.report(item)?.error?.code === 'image_not_found');
    expect(world.report(item)?.ready).toBe(false);
    await world.engine.pull('hello:1', new AbortController().signal);
    await world.until('it serves again', isReady(item));
    expect(await called(item)).toMatchObject({ status: 'succeeded' });
  });

  it('serves nothing that is to be warm and does not start, where nothing served before', async () => {
    const broken = served('broken:1', { warm: true });
    await world.snapshot(broken);
    await world.until('it is refused', () => world.report(broken)?.error !== undefined);
    expect(world.report(broken)).toMatchObject({ ready: false, error: { code: 'not_started' } });
    const first = served('hello:1', { warm: true }, broken);
    await world.delta([first]);
    await world.until('another one serves', isReady(first));
    const [container] = world.engine.containers;
    const proven = served('hello:1', {}, broken);
    await world.delta([proven]);
    await world.until('it serves on', isReady(proven));
    expect(world.engine.containers.map(({ id }) => id)).toEqual([container?.id]);
  });

  it('serves on while the engine does not make an instance of the next version', async () => {
    const first = await serving();
    answersLost = 2;
    const next = served('hello:2', {}, first);
    await world.delta([next]);
    await world.until('it is told', () => world.report(next)?.error !== undefined);
    expect(world.report(next)).toMatchObject({ phase: 'running', ready: true, error: { code: 'runtime_unavailable' } });
    await world.until('it is served', () => isReady(next)() && world.report(next)?.error === undefined);
  });

  it('does not wait for a start that is not wanted any more', async () => {
    const first = await serving();
    const slow = served('slow:1', {}, first);
    await world.delta([slow]);
    await world.until('it is being started', () => states().includes('slow:1 running'));
    const next = served('hello:2', {}, first);
    await world.delta([next]);
    await world.until('another one serves', isReady(next), 5_000);
    await world.until('the others are gone', () => states().join('') === 'hello:2 running');
    const stopped = { ...served('slow:1', {}, first), run: 'stopped' as const };
    await world.delta([served('slow:1', {}, first)]);
    await world.until('it is being started again', () => states().includes('slow:1 running'));
    await world.delta([{ ...stopped, generation: (generation += 1) }]);
    await world.until('it is stopped', () => world.report(first)?.phase === 'stopped', 5_000);
    expect(states()).toEqual([]);
  });

  it('keeps its instances where only its port changes, and loses a port that its project must not have any more', async () => {
    const first = await serving();
    const [container] = world.engine.containers;
    const opened = served('hello:1', { port: 8100 }, first);
    await world.delta([opened]);
    await world.until('its port is open', () => open.has(8100));
    expect(world.engine.containers[0]?.id).toBe(container?.id);
    const ports = { from: 8000, to: 9000, reserved: [8100], own: [], bindings: [] };
    world.agent.backend.configure({ logRetentionDays: 7, ports });
    await world.until('it is closed', () => !open.has(8100));
    await world.until('that is said', () => world.report(opened)?.error?.code === 'port_taken');
    world.agent.backend.configure({ logRetentionDays: 7, ports: { ...ports, reserved: [] } });
    await world.until('it is open again', () => open.has(8100));
  });

  it('has no container that the engine made without an answer', async () => {
    const first = await serving();
    answersLost = 1;
    const next = served('hello:2', {}, first);
    await world.delta([next]);
    await world.until('an answer is lost', () => answersLost === 0);
    await world.until('it is tried again', isReady(next));
    expect(tries()).toBe(3);
    await world.until('the others are gone', () => states().join() === 'hello:2 running');
  });

  it('waits for what writes to its volume, and then has it in each instance', async () => {
    const kept = volume();
    const writer = mounting();
    await world.snapshot(kept, writer);
    await world.until('an application writes to it', isReady(writer));
    const item = served('hello:1', { mounts, min_instances: 2 });
    await world.delta([item]);
    await world.until('it waits', () => world.report(item)?.error?.code === 'volume_in_use');
    expect(states().filter((one) => one.startsWith('hello'))).toEqual([]);
    await world.snapshot(kept, item);
    await world.until('it serves', isReady(item));
    await world.until('both instances run', () => states().join() === 'hello:1 running,hello:1 running');
    for (const { mutable } of world.engine.containers)
      expect(mutable.mounts).toContainEqual(
        expect.objectContaining({ type: 'volume', source: name, path: '/data', readOnly: false }),
      );
    const again = mounting({ alias: 'again' });
    await world.snapshot(kept, again);
    await world.until('an application has it after that', isReady(again));
    expect(states().filter((one) => one.startsWith('hello'))).toEqual([]);
  });

  it('that gave its volume back starts nothing that writes to it, also where its present settings do not start', async () => {
    const { kept, item } = await writing();
    const unbound = served('broken:1', { mounts: undefined, warm: true }, item);
    const writer = mounting();
    await world.snapshot(kept, unbound, writer);
    await world.until('an application writes to it', isReady(writer));
    await world.until('it is refused', () => world.report(unbound)?.error?.code === 'not_started');
    await world.pass(120_000, 1_000);
    const writers = world.engine.containers.filter(({ mutable }) =>
      mutable.mounts.some(({ source }) => source === name),
    );
    expect(writers.map(({ mutable }) => mutable.labels['setpoint.assignment'])).toEqual([writer.id]);
  });

  it('leaves its volume to who waits for it once an agent that starts anew has ended what was left', async () => {
    const { kept, item } = await writing();
    await world.stop();
    await world.start();
    const writer = mounting();
    await world.snapshot(kept, writer, served('hello:1', { mounts: undefined }, item));
    await world.until('an application writes to it', isReady(writer));
  });

  it('leaves it also where an agent that starts anew cannot have the image of the function', async () => {
    const { kept, item } = await writing();
    await world.stop();
    await world.start();
    const writer = mounting();
    await world.snapshot(kept, writer, served('missing:1', { mounts: undefined }, item));
    await world.until('an application writes to it', isReady(writer));
  });
});
