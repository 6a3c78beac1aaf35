import { z } from 'zod';
import { wait, type Clock } from '../../../time/clock.ts';
import { labels, RuntimeFailure, type Container, type ContainerRuntime, type ContainerSpec } from '../runtime.ts';
import { creation, type ContainerLimits } from './creation.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';
import { inspectContainer, State } from './inspection.ts';
import { joinAll } from './joining.ts';
import { EngineError } from './transport.ts';

/** Creation and start include image layers and networks, which take long on slow disks. */
const slowMs = 120_000;

const Listed = z.array(
  z.object({
    Id: z.string(),
    Names: z.array(z.string()).nullable(),
    Labels: z.record(z.string(), z.string()).nullable(),
    State,
    ImageID: z.string(),
  }),
);

/** The engine omits a size of 0. */
const Measured = z.object({ SizeRw: z.int().default(0) });

const Created = z.object({ Id: z.string() });

/** Tries of an update, some 3 s together: a process that keeps exiting can exit during each of them. */
const maxUpdates = 10;
/**
 * Between the end of a process and the engine's look at it, every try fails. The pause doubles from the first to the
 * longest: a loaded machine takes long to look, and the engine's own pause before it restarts the container doubles, too.
 */
const pauseMs = { first: 10, longest: 1000 };

/**
 * What engine, containerd and runc say if the process ends while its limits are updated: the engine updates them with
 * every policy. The text depends on how far the end has come. In this order: the process is not reaped yet, it is
 * reaped, containerd has forgotten it, its shim has ended, its control group is removed.
 */
const ends = [
  /container (is )?not running/,
  /cannot update a (stopped container|deleted process)/,
  /container not created|no such container|(container|task|process)\b.* (not found|does not exist)/,
  /ttrpc: (server )?closed/,
  /unit \S+\.scope (not found|not loaded)|cgroup\S*: no such (file or directory|device)/,
];

/** True if the process ended while the engine updated its limits: the engine then reverts the whole update. */
function endedMeanwhile(error: unknown): boolean {
  if (!(error instanceof EngineError)) return false;
  const cause = /^cannot update container [^:]*: (.*)/is.exec(error.reason)?.[1]?.toLowerCase();
  return cause !== undefined && ends.some((end) => end.test(cause));
}

type Verbs = Pick<
  ContainerRuntime,
  'list' | 'inspect' | 'written' | 'create' | 'start' | 'stop' | 'unpause' | 'remove' | 'setRestart'
>;

/** The container verbs of the runtime. */
export function containers(engine: Engine, clock: Clock, limits: ContainerLimits): Verbs {
  let hasInit: boolean | undefined;
  const remove: Verbs['remove'] = async (id, signal) => {
    const call = {
      method: 'DELETE',
      path: ['containers', id],
      query: { force: true, v: true },
      timeoutMs: slowMs,
    } as const;
    try {
      await engine.call(call, signal);
    } catch (error) {
      if (isStatus(error, 404)) return;
      if (!isStatus(error, 409))
        fail(error, { code: 'runtime_unavailable', attempted: 'Cannot remove the container', codes: [] });
      await removed(engine, id, signal);
    }
  };
  return {
    async list(server, signal) {
      const filters = JSON.stringify({ label: [`${labels.server}=${server}`] });
      const call = { method: 'GET', path: ['containers', 'json'], query: { all: true, filters } } as const;
      return Listed.parse(await engine.call(call, signal)).map((one): Container => ({
        id: one.Id,
        name: (one.Names?.find((name) => name.lastIndexOf('/') === 0) ?? '').slice(1),
        labels: one.Labels ?? {},
        state: one.State,
        imageId: one.ImageID,
      }));
    },

    inspect: (id, signal) => inspectContainer(engine, id, signal),

    async written(id, signal) {
      const path = ['containers', id, 'json'];
      try {
        const answer = await engine.call({ method: 'GET', path, query: { size: true }, timeoutMs: slowMs }, signal);
        return Measured.parse(answer).SizeRw;
      } catch (error) {
        if (isStatus(error, 404)) return undefined;
        throw error;
      }
    },

    async create(spec, signal) {
      await checkVolumes(engine, spec, signal);
      if (spec.init === 'usual') hasInit ??= await initOf(engine, signal);
      const id = await create(engine, creation(spec, limits, hasInit), spec.name, signal);
      if (spec.networks.length === 1) return id;
      try {
        await joinAll(engine, id, signal);
      } catch (error) {
        // If it cannot be removed either, `start` joins the networks that are missing.
        if (!signal.aborted) await remove(id, signal).catch(() => undefined);
        fail(error, { code: 'create_failed', attempted: `Cannot connect container ${spec.name}`, codes: [] });
      }
      return id;
    },

    async start(id, signal) {
      try {
        await joinAll(engine, id, signal);
        await engine.call({ method: 'POST', path: ['containers', id, 'start'], timeoutMs: slowMs }, signal);
      } catch (error) {
        fail(error, {
          code: 'create_failed',
          attempted: 'Cannot start the container',
          codes: ['no_space'],
        });
      }
    },

    async stop(id, graceSeconds, signal) {
      const timeoutMs = graceSeconds * 1000 + slowMs;
      const call = { method: 'POST', path: ['containers', id, 'stop'], query: { t: graceSeconds }, timeoutMs } as const;
      await ignoring([404], engine.call(call, signal), 'Cannot stop the container');
    },

    async unpause(id, signal) {
      // 409 and, before engine 23, 500: the container is not paused.
      await ignoring(
        [404, 409, 500],
        engine.call({ method: 'POST', path: ['containers', id, 'unpause'] }, signal),
        'Cannot resume the container',
      );
    },

    remove,

    async setRestart(id, restart, signal) {
      const body = { RestartPolicy: { Name: restart } };
      const update = () => engine.call({ method: 'POST', path: ['containers', id, 'update'], body }, signal);
      try {
        for (let attempt = 1; ; attempt++) {
          try {
            await update();
            return;
          } catch (error) {
            if (attempt === maxUpdates || !endedMeanwhile(error)) throw error;
          }
          await wait(clock, Math.min(pauseMs.first * 2 ** (attempt - 1), pauseMs.longest), signal);
        }
      } catch (error) {
        fail(error, {
          code: 'create_failed',
          attempted: 'Cannot change the restart policy of the container',
          codes: [],
        });
      }
    },
  };
}

const Init = z.object({ InitCommit: z.object({ ID: z.string() }).nullish() });

/** Whether the engine has a program to begin containers with: of one that is missing it says so in place of its commit. */
async function initOf(engine: Engine, signal: AbortSignal): Promise<boolean> {
  const { InitCommit } = Init.parse(await engine.call({ method: 'GET', path: ['info'] }, signal));
  return InitCommit?.ID !== 'N/A';
}

/** Waits for a removal that another client of the engine began. */
async function removed(engine: Engine, id: string, signal: AbortSignal): Promise<void> {
  const path = ['containers', id, 'wait'];
  const call = { method: 'POST', path, query: { condition: 'removed' }, timeoutMs: slowMs } as const;
  await ignoring([404], engine.call(call, signal), 'Cannot remove the container');
}

async function ignoring(statuses: number[], call: Promise<unknown>, attempted: string): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!isStatus(error, ...statuses)) fail(error, { code: 'runtime_unavailable', attempted, codes: [] });
  }
}

async function create(engine: Engine, body: object, name: string, signal: AbortSignal): Promise<string> {
  const call = {
    method: 'POST',
    path: ['containers', 'create'],
    query: { name },
    body,
    timeoutMs: slowMs,
  } as const;
  try {
    return Created.parse(await engine.call(call, signal)).Id;
  } catch (error) {
    if (isStatus(error, 409)) {
      const message = `A container named ${name} exists already`;
      throw new RuntimeFailure('name_taken', message, { retryable: true, cause: error });
    }
    return fail(error, {
      code: 'create_failed',
      attempted: `Cannot create container ${name}`,
      codes: ['no_space', 'image_not_found'],
    });
  }
}

/** For a volume that does not exist the engine would make an empty one, and the service would run without its data. */
async function checkVolumes(engine: Engine, { name, mounts = [] }: ContainerSpec, signal: AbortSignal): Promise<void> {
  for (const mount of mounts) {
    if (mount.type !== 'volume') continue;
    try {
      await engine.call({ method: 'GET', path: ['volumes', mount.volume] }, signal);
    } catch (error) {
      const attempted = `Cannot create container ${name}`;
      if (!isStatus(error, 404)) fail(error, { code: 'create_failed', attempted, codes: [] });
      const message = `${attempted}: volume ${mount.volume} does not exist`;
      throw new RuntimeFailure('data_lost', message, { retryable: true, cause: error });
    }
  }
}
