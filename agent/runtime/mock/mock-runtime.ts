import { surveyLimits } from '../../../agent-protocol/survey.ts';
import { bears } from '../bears.ts';
import { belongingsOf } from '../belongings.ts';
import { copyRefusals } from '../copy-refusals.ts';
import { isOfAgent, isVolumeOfAgent, tellingLabels } from '../foreign.ts';
import { withoutSecrets } from '../secret-words.ts';
import { answered, commandProbe, connectionTo, failed, imageProbe, type Prober } from '../probe.ts';
import {
  labels,
  RuntimeFailure,
  type ContainerRuntime,
  type EngineFacts,
  type ForeignContainer,
  type RuntimeEvent,
} from '../runtime.ts';
import type { MockContainer } from './mock-container.ts';
import type { MockEngine } from './mock-engine.ts';

/** A mock engine has no programs of its own and no end of addresses. */
const mockFacts: EngineFacts = {
  version: '1.0',
  runc: undefined,
  liveRestore: true,
  proxy: { http: '', https: '', none: '' },
  addresses: { total: 31, free: 31, hasSpare: true },
};

/**
 * Makes a client of a mock engine. If its signal aborts, a call ends for the client, but goes on in the engine. `can`
 * makes it an engine that cannot do everything.
 */
export function mockRuntime(
  engine: MockEngine,
  can: ContainerRuntime['can'] = { restart: true, hold: true },
): ContainerRuntime {
  const ask = async <T>(
    verb: string,
    target: string | undefined,
    signal: AbortSignal,
    answer: () => T | Promise<T>,
  ): Promise<T> => {
    await Promise.resolve(); // no answer comes synchronously, as over a socket
    signal.throwIfAborted();
    engine.enter(verb, target);
    return abortable(answer(), signal);
  };
  const nameOf = (id: string): string => engine.find(id)?.name ?? id;
  return {
    name: 'mock',
    can,
    version: (signal) => ask('version', undefined, signal, () => '1.0'),
    facts: (signal) => ask('facts', undefined, signal, () => mockFacts),
    folders: (signal) => ask('folders', undefined, signal, () => []),
    belongings: (signal) =>
      ask('belongings', undefined, signal, () =>
        belongingsOf({
          containers: engine.containers.map((one) => ({ ...one.summary(), names: [one.name] })),
          networks: [...engine.networks].map(([name, given]) => ({ name, labels: given })),
          images: engine.localImages(),
        }),
      ),
    list: (server, signal) =>
      ask('list', undefined, signal, () =>
        engine.containers.map((one) => one.summary()).filter((one) => one.labels[labels.server] === server),
      ),
    inspect: (id, signal) => ask('inspect', undefined, signal, () => engine.find(id)?.detail()),
    written: (id, signal) => ask('written', undefined, signal, () => engine.find(id)?.mutable.writtenBytes),
    usage: ({ id }, signal) => ask('usage', undefined, signal, () => engine.find(id)?.usage()),
    listeners: ({ id }, signal) => ask('listeners', undefined, signal, () => engine.find(id)?.listeners),
    connections: ({ id }, signal) => ask('connections', undefined, signal, () => engine.find(id)?.connections ?? 0),
    create: (spec, signal) => ask('create', spec.name, signal, () => engine.create(spec)),
    start: (id, signal) =>
      ask('start', nameOf(id), signal, () => {
        if (!can.restart && engine.find(id)?.state === 'exited') throw cannot('start a container again');
        return engine.start(id);
      }),
    stop: (id, graceSeconds, signal) =>
      ask('stop', nameOf(id), signal, () => engine.find(id)?.stop(graceSeconds * 1000)),
    unpause: (id, signal) => ask('unpause', nameOf(id), signal, () => engine.find(id)?.pause(false)),
    remove: (id, signal) => ask('remove', nameOf(id), signal, () => engine.remove(id)),
    run: (id, command, options, signal) =>
      ask('run', undefined, signal, () => engine.run(id, command, options, signal)),
    setRestart: (id, restart, signal) =>
      ask('setRestart', nameOf(id), signal, () => {
        if (!can.hold) throw cannot('restart containers by itself');
        const one = engine.find(id);
        if (one) one.mutable.restart = restart;
      }),
    image: (reference, signal) => ask('image', undefined, signal, () => engine.imageInfo(reference)),
    pull: (image, signal, seen) => {
      const reference = typeof image === 'string' ? image : image.reference;
      return ask('pull', reference, signal, () => engine.pull(reference, signal, seen));
    },
    build: (options, line, signal) => ask('build', options.tag, signal, () => engine.build(options, line, signal)),
    builder: (signal) => ask('builder', undefined, signal, () => ({ type: 'classic' as const })),
    buildByKit: () => Promise.reject(cannot('build by BuildKit')),
    stepWrites: () => Promise.resolve(0),
    trimBuildCache: (_keptBytes, signal) => ask('trimBuildCache', undefined, signal, () => 0),
    async *sharedBridge(signal) {
      await ask('sharedBridge', undefined, signal, () => undefined);
      yield undefined;
    },
    images: (wanted, signal) =>
      ask('images', undefined, signal, () => engine.localImages().filter((image) => bears(image.labels, wanted))),
    removeImage: (id, signal) => ask('removeImage', id, signal, () => engine.removeImage(id)),
    ensureNetwork: (name, given, signal) => ask('ensureNetwork', name, signal, () => engine.ensureNetwork(name, given)),
    removeNetwork: (name, signal) => ask('removeNetwork', name, signal, () => engine.removeNetwork(name)),
    networks: (wanted, signal) =>
      ask('networks', undefined, signal, () =>
        [...engine.networks].filter(([, given]) => bears(given, wanted)).map(([name]) => name),
      ),
    ensureVolume: (name, given, signal) => ask('ensureVolume', name, signal, () => engine.volumes.ensure(name, given)),
    volume: (name, signal) =>
      ask('volume', undefined, signal, () => {
        const found = engine.volumes.get(name);
        return found === undefined ? undefined : { name, labels: found.labels };
      }),
    volumes: (wanted, signal) => ask('volumes', undefined, signal, () => engine.volumes.list(wanted)),
    openVolume: (name, signal) => ask('openVolume', name, signal, () => undefined), // every user may write to all files
    removeVolume: (name, { alsoUnlabelled = false }, signal) =>
      ask('removeVolume', name, signal, () => engine.removeVolume(name, alsoUnlabelled)),
    volumeUsage: (name, signal) => ask('volumeUsage', undefined, signal, () => engine.volumes.usage(name)),
    copySource: (name, signal) =>
      ask('copySource', undefined, signal, () => {
        const found = engine.volumes.get(name);
        if (found === undefined) return undefined;
        if (isVolumeOfAgent(name, found.labels)) return { refusal: copyRefusals.ofAgent, writers: [] };
        const writers = engine.containers
          .filter(({ mutable }) => mutable.mounts.some(({ source, readOnly }) => source === name && !readOnly))
          .map((one) => ({
            id: one.id,
            name: one.name,
            isLive: ['running', 'paused', 'restarting'].includes(one.state),
            startedAt: one.detail().startedAt,
          }));
        return { writers };
      }),
    foreign: (signal) =>
      ask('foreign', undefined, signal, () => ({
        containers: engine.containers
          .filter(({ name, mutable }) => !isOfAgent([name], mutable.labels))
          .toSorted((a, b) => Number(b.state === 'running') - Number(a.state === 'running'))
          .map((one) => shown(one, engine))
          .slice(0, surveyLimits.containers),
        volumes: engine.volumes
          .list({})
          .filter((one) => !isVolumeOfAgent(one.name, one.labels))
          .map(({ name }) => ({ name, driver: 'local', is_anonymous: /^[0-9a-f]{64}$/.test(name) }))
          .slice(0, surveyLimits.volumes),
        truncated: engine.containers.length > surveyLimits.containers,
      })),
    foreignValues: (ids, signal) =>
      ask('foreignValues', undefined, signal, () =>
        engine.containers
          .filter(({ id, name, mutable }) => ids.includes(id) && !isOfAgent([name], mutable.labels))
          .map(({ id, mutable }) => ({ id, env: { ...mutable.env } })),
      ),
    output: (id, options, signal) => {
      const chunks = engine.find(id)?.output(options, signal);
      if (chunks && options.attached) queueMicrotask(options.attached);
      return guarded(chunks ?? none(), () => engine.enter('output'), signal);
    },
    exec: (id, options, signal) => ask('exec', nameOf(id), signal, () => engine.exec(id, options, signal)),
    events: (server, signal) =>
      only(
        guarded(engine.events(signal), () => engine.enter('events'), signal),
        server,
      ),
  };
}

/** A container of a mock engine has no ports of the server, and nothing that an image brings. */
function shown(one: MockContainer, engine: MockEngine): ForeignContainer {
  const { entrypoint, command, env, mounts, user, readOnlyRoot, restart, memoryBytes, nanoCpus } = one.mutable;
  const settings = { entrypoint: entrypoint.length > 0, read_only_root: readOnlyRoot };
  return {
    id: one.id,
    name: one.name,
    state: one.state,
    exit_code: one.detail().exitCode ?? 0,
    started_at: one.detail().startedAt,
    image: engine.origin(one.imageId),
    labels: tellingLabels(one.mutable.labels),
    ...(command.length > 0 && { command: withoutSecrets(command) }),
    env: Object.keys(env),
    ports: [],
    exposed: [],
    mounts: mounts.map(({ type, source, path, readOnly }) => ({
      type: type === 'file' ? 'bind' : type,
      source,
      path,
      read_only: readOnly,
    })),
    networks: one.places.map(({ name }) => name),
    restart,
    memory_bytes: memoryBytes,
    nano_cpus: nanoCpus,
    settings: [
      ...Object.entries(settings).flatMap(([name, is]) => (is ? [{ name, value: '' }] : [])),
      ...(user === '' ? [] : [{ name: 'user', value: user }]),
    ],
  };
}

function cannot(what: string): RuntimeFailure {
  return new RuntimeFailure('create_failed', `This engine cannot ${what}`, { retryable: false });
}

const refused = { code: 'ECONNREFUSED' };

/** Checks containers of a mock engine: by address as a probe over the network does, and by the engine. */
export function mockProber(engine: MockEngine): Prober {
  const runtime = mockRuntime(engine);
  return {
    async probe(target, signal) {
      await Promise.resolve();
      signal.throwIfAborted();
      switch (target.type) {
        case 'http': {
          const { address, port, path } = target;
          const status = engine.at(address)?.answer(port, path);
          return status === undefined ? failed(`GET ${path}`, refused) : answered(target, status);
        }
        case 'tcp': {
          const { address, port } = target;
          return engine.at(address)?.listens(port) === true ? { ok: true } : failed(connectionTo(port), refused);
        }
        case 'command':
          return commandProbe(runtime, target, signal);
        case 'image':
          return imageProbe(runtime, target, signal);
      }
    },
  };
}

async function abortable<T>(work: T | Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason as Error); // all callers abort with errors
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

async function* only(events: AsyncIterable<RuntimeEvent>, server: string): AsyncGenerator<RuntimeEvent> {
  for await (const event of events)
    if (event.action === 'disconnect' || event.labels[labels.server] === server) yield event;
}

async function* guarded<T>(source: AsyncIterable<T>, enter: () => void, signal: AbortSignal): AsyncGenerator<T> {
  signal.throwIfAborted();
  enter();
  yield* source;
}

async function* none(): AsyncGenerator<never> {
  // There is no such container.
}
