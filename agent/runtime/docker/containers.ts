import { z } from 'zod';
import {
  labels,
  RuntimeFailure,
  type Container,
  type ContainerDetail,
  type ContainerRuntime,
  type ContainerSpec,
} from '../runtime.ts';
import { imageReference } from '../image-reference.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';
import { EngineError } from './transport.ts';

/** Limits that every container gets in addition to its spec. */
export interface ContainerLimits {
  /** Most processes and threads of one container. */
  pids: number;
  /** Limits of a container whose spec has none; absent: no limit. */
  memoryBytes?: number;
  nanoCpus?: number;
  /** Above 0: when memory is short, the kernel ends containers before other processes of the machine. */
  oomScoreAdj: number;
  /** Size of one file of the engine's own record of the output, and the number of these files. */
  logFileBytes: number;
  logFiles: number;
}

/** Creation and start include image layers and networks, which take long on slow disks. */
const slowMs = 120_000;

const State = z
  .enum(['created', 'running', 'paused', 'restarting', 'removing', 'exited', 'dead'])
  .transform((state) => (state === 'removing' ? 'dead' : state));

const Listed = z.array(
  z.object({
    Id: z.string(),
    Names: z.array(z.string()).nullable(),
    Labels: z.record(z.string(), z.string()).nullable(),
    State,
    ImageID: z.string(),
  }),
);

/** The engine's zero time means never and becomes an empty text. */
const Time = z.string().transform((time) => (time.startsWith('0001-') ? '' : time));

const Inspected = z.object({
  Id: z.string(),
  Name: z.string(),
  Image: z.string(),
  RestartCount: z.int(),
  State: z.object({
    Status: State,
    ExitCode: z.int(),
    OOMKilled: z.boolean(),
    Pid: z.int(),
    StartedAt: Time,
    FinishedAt: Time,
  }),
  Config: z.object({
    Env: z.array(z.string()).nullable(),
    Cmd: z.array(z.string()).nullable(),
    Labels: z.record(z.string(), z.string()).nullable(),
  }),
  HostConfig: z.object({ Memory: z.int(), NanoCpus: z.int() }),
  NetworkSettings: z.object({ Networks: z.record(z.string(), z.object({ IPAddress: z.string() })).nullable() }),
});

/** The engine omits a size of 0. */
const Measured = z.object({ SizeRw: z.int().default(0) });

const Created = z.object({ Id: z.string() });

/** Most tries of an update: a process that keeps exiting can exit during each of them. */
const maxUpdates = 5;

/** True if the process ended while the engine updated its limits: the engine then reverts the whole update. */
function endedMeanwhile(error: unknown): boolean {
  return error instanceof EngineError && /cannot update a stopped container/i.test(error.reason);
}

type Verbs = Pick<
  ContainerRuntime,
  'list' | 'inspect' | 'written' | 'create' | 'start' | 'stop' | 'unpause' | 'remove' | 'setRestart'
>;

/** The container verbs of the runtime. */
export function containers(engine: Engine, limits: ContainerLimits): Verbs {
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
      const call = {
        method: 'POST',
        path: ['containers', 'create'],
        query: { name: spec.name },
        body: creation(spec, limits),
        timeoutMs: slowMs,
      } as const;
      try {
        return Created.parse(await engine.call(call, signal)).Id;
      } catch (error) {
        if (isStatus(error, 409)) {
          const message = `A container named ${spec.name} exists already`;
          throw new RuntimeFailure('name_taken', message, { retryable: true, cause: error });
        }
        return fail(error, {
          code: 'create_failed',
          attempted: `Cannot create container ${spec.name}`,
          codes: ['no_space', 'image_not_found'],
        });
      }
    },

    async start(id, signal) {
      try {
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

    async remove(id, signal) {
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
    },

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

/** Returns `undefined` if there is no such container. */
export async function inspectContainer(
  engine: Engine,
  id: string,
  signal: AbortSignal,
): Promise<ContainerDetail | undefined> {
  try {
    return detail(Inspected.parse(await engine.call({ method: 'GET', path: ['containers', id, 'json'] }, signal)));
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
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

function creation(spec: ContainerSpec, limits: ContainerLimits): object {
  const { memoryBytes = limits.memoryBytes, nanoCpus = limits.nanoCpus } = spec;
  const given = [spec.memoryBytes === undefined ? memoryBytes : 0, spec.nanoCpus === undefined ? nanoCpus : 0];
  const defaults = given.some((it) => (it ?? 0) > 0) ? { [labels.defaults]: given.map((it) => it ?? 0).join(' ') } : {};
  return {
    Image: imageReference(spec.image),
    Labels: { ...spec.labels, ...defaults },
    Env: Object.entries(spec.env).map(([name, value]) => `${name}=${value}`),
    ...(spec.command === undefined ? {} : { Cmd: spec.command }),
    HostConfig: {
      NetworkMode: spec.network,
      RestartPolicy: { Name: spec.restart },
      PidsLimit: limits.pids,
      OomScoreAdj: limits.oomScoreAdj,
      SecurityOpt: ['no-new-privileges:true'],
      // With raw sockets a container could impersonate others in its network; with device nodes it could reach the
      // disks.
      CapDrop: ['NET_RAW', 'MKNOD'],
      LogConfig: {
        Type: 'local',
        Config: { 'max-size': `${limits.logFileBytes}`, 'max-file': `${limits.logFiles}` },
      },
      // MemorySwap counts memory and swap together: an equal value means no swap.
      ...(memoryBytes === undefined ? {} : { Memory: memoryBytes, MemorySwap: memoryBytes }),
      ...(nanoCpus === undefined ? {} : { NanoCpus: nanoCpus }),
    },
    NetworkingConfig: { EndpointsConfig: { [spec.network]: { Aliases: [spec.alias] } } },
  };
}

function detail(it: z.infer<typeof Inspected>): ContainerDetail {
  const ended = it.State.Status === 'exited' || it.State.Status === 'dead';
  return {
    id: it.Id,
    name: it.Name.slice(1),
    labels: it.Config.Labels ?? {},
    state: it.State.Status,
    imageId: it.Image,
    env: it.Config.Env ?? [],
    command: it.Config.Cmd ?? [],
    exitCode: ended || it.State.Status === 'restarting' ? it.State.ExitCode : undefined,
    oomKilled: it.State.OOMKilled,
    restartCount: it.RestartCount,
    startedAt: it.State.StartedAt,
    finishedAt: it.State.FinishedAt,
    addresses: Object.fromEntries(
      Object.entries(it.NetworkSettings.Networks ?? {})
        .filter(([, network]) => network.IPAddress !== '')
        .map(([name, network]) => [name, network.IPAddress]),
    ),
    pid: it.State.Pid,
    memoryBytes: it.HostConfig.Memory,
    nanoCpus: it.HostConfig.NanoCpus,
  };
}
