import { z } from 'zod';
import { encode } from '../../databases/engine.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { toEarlier } from '../../agent-protocol/earlier-service.ts';
import type { WireConfiguration, WireItem } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import { generatedPath } from '../../agent-protocol/generated-dockerfile.ts';
import type { TaskRow } from '../../agent-protocol/task-table.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import { taskRow } from '../../agent-protocol/task-types.ts';
import { definitionOf } from '../../store/definition.ts';
import type { Definition } from '../../store/definition.ts';
import type { FunctionSpec, ServiceSpec, StoredTask } from '../../store/kinds/assignment.ts';
import { Id, Resolved, Sealed } from '../../store/kinds/fields.ts';
import type { Configuration, SealedValue, WordsName } from '../../store/kinds/define.ts';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { withReferences } from '../../store/referable.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unsealer } from '../../store/seal.ts';
import { gitAccessOf } from './git-access.ts';
import { Unopened } from './unopened.ts';

type Assignment = ReadonlyResource<'assignment'>;
type Service = Extract<Assignment['desired']['spec'], { type: 'service' }>;
type ServedFunction = Extract<Assignment['desired']['spec'], { type: 'function' }>;
type CopiedVolume = Extract<Assignment['desired']['spec'], { type: 'copied_volume' }>;
type Values = DeepReadonly<Record<string, SealedValue | string>>;

/** The object that has the configuration of an assignment. */
type Holder = ReadonlyResource<'deployment' | 'database' | 'function_version'>;

/** An assignment that may be sent. */
export interface Sendable {
  it: Assignment;
  /** The object that has its configuration; absent where none is needed. */
  holder: Holder | undefined;
  /** Which part of the holder: a service, a revision, or both; absent: it has one. */
  part?: string | undefined;
}

/** Why an assignment must not be sent. The message is for people. */
export interface Unsendable {
  code: Extract<FailureCode, 'secret_unavailable' | 'agent_outdated'>;
  message: string;
}

interface Options {
  view: Pick<TenantView, 'get'>;
  unsealer: Unsealer;
  /** What the agent understands. For an agent without `configurations` every item holds its variables itself. */
  capabilities: ReadonlySet<string>;
}

/** The wire form of one agent's desired set, with opened secrets. */
export class Projection {
  readonly #options: Options;
  /** Services of desired records of holders whose configuration was opened before: one trial of each is enough. */
  readonly #proven = new WeakMap<object, Set<string | undefined>>();
  /** The last configuration that was inlined: items of one version come one after another. */
  #last: { holder: Holder; configuration: WireConfiguration } | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  get #isInline(): boolean {
    return !this.#options.capabilities.has('configurations');
  }

  get #knowsServices(): boolean {
    return this.#options.capabilities.has('services');
  }

  get #knowsCopies(): boolean {
    return this.#options.capabilities.has('volumes.copy');
  }

  /**
   * Whether an assignment may be sent. One that is to run must not be if one of its secrets does not open: nothing is
   * started with less than its whole configuration. One that is to stop needs no secrets. Nothing is sent to an agent
   * that would do something else than what is desired.
   */
  check(it: Assignment): Sendable | Unsendable {
    const { spec, run } = it.desired;
    const lacks = this.#lackOf(it.desired);
    if (lacks !== undefined) return lacks;
    if (run === 'stopped' || isWithoutSecrets(spec)) return { it, holder: undefined };
    try {
      if (spec.type === 'service' || spec.type === 'function') return this.#configured(it, spec);
      this.#task(it, spec);
      return { it, holder: undefined };
    } catch (error) {
      if (error instanceof Unopened) return unsendable(error.message);
      throw error;
    }
  }

  /** What the agent lacks for the item; `undefined` if it has what it needs. */
  #lackOf(desired: Assignment['desired']): Unsendable | undefined {
    const { spec, run } = desired;
    if (run === 'running' && this.#pullsPrivately(desired) && !this.#options.capabilities.has('registry.access'))
      return cannotLogIn;
    switch (spec.type) {
      case 'routes':
        return this.#options.capabilities.has('ingress') ? undefined : cannotRoute;
      case 'service':
        return this.#lackOfService(spec);
      case 'function':
        return this.#lackOfFunction(spec, run);
      case 'archive':
        return this.#options.capabilities.has('archive') ? undefined : cannotArchive;
      case 'volume':
        return this.#options.capabilities.has('volumes') ? undefined : cannotKeep;
      case 'copied_volume':
        if (run === 'stopped') return this.#options.capabilities.has('volumes') ? undefined : cannotKeep;
        return this.#knowsCopies ? undefined : cannotCopy;
      default:
        return this.#lackOfTask(spec, run);
    }
  }

  #pullsPrivately({ workload_kind, workload_id }: Assignment['desired']): boolean {
    if (workload_kind !== 'application') return false;
    return this.#options.view.get('application', workload_id)?.desired.registry_id !== undefined;
  }

  #lackOfService(spec: Service): Unsendable | undefined {
    const { capabilities } = this.#options;
    if (spec.ingress !== undefined && !capabilities.has('ingress')) return cannotRoute;
    const hasProcess = spec.working_dir !== undefined || spec.init === true;
    if (hasProcess && !capabilities.has('services.process')) return cannotRun;
    if (spec.granted_capabilities !== undefined && !capabilities.has('services.grants')) return cannotRun;
    return this.#knowsServices || toEarlier(withOneName(settingsOf(spec))) !== undefined ? undefined : cannotRun;
  }

  /** An agent that knows no mounts ends a function all the same. */
  #lackOfFunction({ mounts }: DeepReadonly<FunctionSpec>, run: Assignment['desired']['run']): Unsendable | undefined {
    const { capabilities } = this.#options;
    if (!capabilities.has('functions')) return cannotServe;
    return mounts === undefined || run === 'stopped' || capabilities.has('functions.volumes') ? undefined : cannotShare;
  }

  #lackOfTask(spec: DeepReadonly<StoredTask>, run: Assignment['desired']['run']): Unsendable | undefined {
    const { capability, gated }: TaskRow = taskRow(spec.type);
    if (capability !== null && !this.#options.capabilities.has(capability)) return cannotCarryOut(spec.type);
    if (run === 'stopped') return undefined;
    const lacks = gated.find((it) => Object.hasOwn(spec, it.field) && !this.#options.capabilities.has(it.capability));
    return lacks && { code: 'agent_outdated', message: lacks.message };
  }

  #configured(it: Assignment, { config }: Service | ServedFunction): Sendable | Unsendable {
    if (config === undefined) return { it, holder: undefined };
    const holder = this.#options.view.get(config.kind, config.id);
    const part = partOf(config);
    if (holder === undefined || configurationIn(holder, part).of.id !== it.desired.workload_id)
      return unsendable(`Its ${config.kind} ${config.id} is not in the store: deploy it again`);
    const proven = this.#proven.get(holder.desired) ?? new Set();
    if (!proven.has(part)) {
      this.configuration(holder, part);
      this.#words({ it, holder, part });
    }
    this.#proven.set(holder.desired, proven.add(part));
    return { it, holder, part };
  }

  /** Id of the configuration that the item refers to. */
  configurationOf({ holder, part }: Sendable): string | undefined {
    return this.#isInline || holder === undefined ? undefined : configurationId(holder, part);
  }

  configuration(holder: Holder, part: string | undefined): WireConfiguration {
    const { of, env, files, made, references } = configurationIn(holder, part);
    const { tenant } = holder.meta;
    const place = (field: string) => ({ tenant, kind: of.kind, id: of.id, path: `${of.path}.${field}` });
    return {
      id: configurationId(holder, part),
      env: {
        ...portOf(holder),
        ...resolved(this.#open(env, place('env'), 'environment variable'), this.#referred(tenant, references)),
      },
      ...((files ?? made) !== undefined && {
        files: {
          ...this.#open(files ?? {}, place('files'), 'content of the file'),
          ...Object.assign({}, ...(made ?? []).map((one) => this.#made(tenant, one))),
        },
      }),
    };
  }

  /** Files with a secret in them, in base64. */
  #made(tenant: string, made: NonNullable<Configuration['made']>[number]): Record<string, string> {
    const { path } = placeOf(tenant, made.secret);
    try {
      const text = this.#options.unsealer.unseal(made.secret, placeOf(tenant, made.secret));
      return Object.fromEntries(
        Object.entries(made.files(text)).map(([file, content]) => [file, Buffer.from(content).toString('base64')]),
      );
    } catch (cause) {
      throw new Unopened(`The secret ${path} cannot be decrypted: its key is not on the control plane`, { cause });
    }
  }

  item(sendable: Sendable): WireItem {
    const { meta, desired } = sendable.it;
    const { spec, server_id: _, ...rest } = desired;
    // Agents of earlier releases expect the name that a version had there.
    const earlier = this.#knowsServices ? {} : { deployment_id: desired.version };
    const common = { id: meta.id, generation: meta.generation, tenant: meta.tenant, ...earlier, ...rest };
    if (spec.type === 'service') return { ...common, spec: this.#service(sendable, spec) };
    if (spec.type === 'function') {
      const config = this.configurationOf(sendable);
      const { config: _config, ...settings } = spec;
      return { ...common, spec: { ...settings, ...(config !== undefined && { config }) } };
    }
    if (spec.type === 'copied_volume') return { ...common, spec: this.#copiedVolume(spec) };
    if (isWithoutSecrets(spec)) return { ...common, spec: { ...spec } };
    return { ...common, spec: this.#task(sendable.it, spec) };
  }

  /**
   * A call as it is sent to the agent, with its secrets opened.
   *
   * @throws CallError `agent_outdated`, or `secret_unavailable` if a secret does not open
   */
  call(params: CallParams): CallParams {
    const isReading = params.method === 'repository.read';
    if (isReading && params.manifests === true && !this.#options.capabilities.has('repository.manifests'))
      throw new CallError('agent_outdated', cannotReadManifests);
    if (isReading && !this.#options.capabilities.has('build.compose'))
      throw new CallError('agent_outdated', cannotReadCompose);
    const isOfTag = params.method === 'git.tag';
    if (isOfTag && !this.#options.capabilities.has('git.tags')) throw new CallError('agent_outdated', cannotFindTags);
    const isOfGit = isReading || isOfTag || params.method === 'git.head' || params.method === 'dockerfile.generate';
    if (!isOfGit || params.git_credential_id === undefined) return params;
    const { git_credential_id: id, ...rest } = params;
    if (!this.#options.capabilities.has('git.credentials')) throw new CallError('agent_outdated', cannotReadPrivate);
    try {
      return { ...rest, credential: gitAccessOf(this.#options, id) };
    } catch (error) {
      if (error instanceof Unopened) throw new CallError('secret_unavailable', error.message, { cause: error });
      throw error;
    }
  }

  /** Forgets the secrets that were opened for the items of a set. */
  forget(): void {
    this.#last = undefined;
  }

  #service(sendable: Sendable, spec: Service): WireItem['spec'] {
    const settings = settingsOf(spec);
    const id = this.configurationOf(sendable);
    const config = id === undefined ? {} : { config: id };
    const whole = withWords(settings, this.#words(sendable));
    if (this.#knowsServices) return { ...whole, ...config };
    const earlier = toEarlier(withOneName(whole));
    if (earlier === undefined) throw new TypeError(`Assignment ${sendable.it.meta.id} was not checked`);
    return { ...earlier, ...config, ...(this.#isInline && { env: this.#inlined(sendable.holder)?.env ?? {} }) };
  }

  /** The commands that the configuration has. */
  #words({ holder, part }: Sendable): Words {
    if (holder === undefined) return {};
    const { of, words = {} } = configurationIn(holder, part);
    const place = { tenant: holder.meta.tenant, kind: of.kind, id: of.id, path: `${of.path}.words` };
    const texts = this.#open(words, place, 'command');
    return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, List.parse(JSON.parse(text))]));
  }

  /** To an agent that does not know copies, only one that is to be removed is sent: as any other volume. */
  #copiedVolume(spec: CopiedVolume): WireItem['spec'] {
    return this.#knowsCopies ? { ...spec } : { type: 'volume', volume: spec.volume };
  }

  #inlined(holder: Holder | undefined): WireConfiguration | undefined {
    if (holder === undefined) return undefined;
    if (this.#last?.holder !== holder) this.#last = { holder, configuration: this.configuration(holder, undefined) };
    return this.#last.configuration;
  }

  /** A task that is to stop has none of its secrets. */
  #task({ meta, desired }: Assignment, spec: DeepReadonly<StoredTask>): WireItem['spec'] {
    const opened: WireItem['spec'] = { ...spec };
    const { secrets, gitAccess = [] }: TaskRow = taskRow(spec.type);
    for (const field of gitAccess) {
      const id = opened[field];
      if (desired.run === 'stopped') delete opened[field];
      else if (id !== undefined) opened[field] = gitAccessOf(this.#options, Id.parse(id));
    }
    for (const { field, path, what, application, references } of secrets) {
      if (opened[field] === undefined) continue;
      const { workload_kind: kind, workload_id: id } = desired;
      const holder =
        application === undefined ? { kind, id } : { kind: 'application', id: String(opened[application]) };
      const values = desired.run === 'stopped' ? {} : Secrets.parse(opened[field]);
      const texts = this.#open(values, { tenant: meta.tenant, ...holder, path }, what);
      if (references === undefined) opened[field] = texts;
      else {
        opened[field] = resolved(texts, this.#referred(meta.tenant, References.parse(opened[references])));
        // what they stand for is in the values
        delete opened[references];
      }
    }
    return opened;
  }

  /** The texts that references stand for, with the secrets in them opened. */
  #referred(tenant: string, references: Configuration['references']): Record<string, string> | undefined {
    if (references === undefined) return undefined;
    return Object.fromEntries(
      Object.entries(references).map(([text, value]) => {
        if (typeof value === 'string') return [text, value];
        const { before, secret, after, isInUrl } = value;
        try {
          const opened = this.#options.unsealer.unseal(secret, placeOf(tenant, secret));
          return [text, `${before}${isInUrl ? encode(opened) : opened}${after}`];
        } catch (cause) {
          const message = `What ${text} stands for cannot be decrypted: its key is not on the control plane`;
          throw new Unopened(message, { cause });
        }
      }),
    );
  }

  #open(
    values: Values,
    of: { tenant: string; kind: string; id: string; path: string },
    what: string,
  ): Record<string, string> {
    const opened: Record<string, string> = {};
    for (const [key, value] of Object.entries(values)) {
      const place = { ...of, path: `${of.path}.${key}` };
      try {
        opened[key] = typeof value === 'string' ? value : this.#options.unsealer.unseal(value, place);
      } catch (cause) {
        const message = `The ${what} ${key} cannot be decrypted: its key is not on the control plane`;
        throw new Unopened(message, { cause });
      }
    }
    return opened;
  }
}

type WithoutSecrets = Extract<
  Assignment['desired']['spec'],
  { type: 'volume' | 'copied_volume' | 'routes' | 'archive' }
>;

function isWithoutSecrets(spec: Assignment['desired']['spec']): spec is WithoutSecrets {
  return ['volume', 'copied_volume', 'routes', 'archive'].includes(spec.type);
}

/** The settings of a service without the reference to its configuration, which the wire has in another form. */
function settingsOf(spec: Service): Omit<ServiceSpec, 'config'> {
  const { config: _, ...settings } = spec;
  return plainCopy<Omit<ServiceSpec, 'config'>>(settings);
}

type Words = Partial<Record<WordsName, string[]>>;

function withWords(settings: Omit<ServiceSpec, 'config'>, { probe, ...commands }: Words): Omit<ServiceSpec, 'config'> {
  const { probe: known } = settings;
  if (probe === undefined || known?.type !== 'command') return { ...settings, ...commands };
  return { ...settings, ...commands, probe: { ...known, command: probe } };
}

/** An agent without `services` gives each instance its first name only. */
function withOneName(settings: Omit<ServiceSpec, 'config'>): Omit<ServiceSpec, 'config'> {
  const [first, ...others] = settings.networks;
  return { ...settings, networks: [{ ...first, aliases: first.aliases.slice(0, 1) }, ...others] };
}

/** @throws Unopened naming the variable whose reference stands for nothing */
function resolved(env: Record<string, string>, references: Record<string, string> | undefined): Record<string, string> {
  if (references === undefined) return env;
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => {
      try {
        return [name, withReferences(value, references)];
      } catch (cause) {
        throw new Unopened(
          `The environment variable ${name} has no value: ${(cause as Error).message}: deploy it again`,
          {
            cause,
          },
        );
      }
    }),
  );
}

function configurationId({ meta }: Holder, part: string | undefined): string {
  return part === undefined ? meta.id : `${meta.id}/${part}`;
}

/**
 * Many programs listen on `PORT`; one whose Dockerfile was generated does, also after the port changes and nothing is built.
 * Services of a compose file have the variables of their file.
 */
function portOf({ desired }: Holder): Record<string, string> {
  if (!('source' in desired)) return {};
  const { source, config } = desired;
  const isGenerated = source.type === 'git' && source.dockerfile_path === generatedPath;
  const isGiven = source.type !== 'compose' && desired.gives_port === true;
  if (config.exposed_port === undefined || !(isGenerated || isGiven)) return {};
  return { PORT: String(config.exposed_port) };
}

function partOf({
  service,
  revision,
  encryption,
}: NonNullable<(Service | ServedFunction)['config']>): string | undefined {
  return revision === undefined ? service : [service, revision, encryption].filter((it) => it !== undefined).join('/');
}

/** @throws TypeError if the kind declares no configuration, which is a bug. */
function configurationIn({ meta, desired, observed }: Holder, part: string | undefined): Configuration {
  const { configuration: declared }: Definition<KindName> = definitionOf(meta.kind);
  const configuration = declared?.(desired as DesiredOf<KindName>, observed as ObservedOf<KindName> | undefined, {
    id: meta.id,
    part,
  });
  if (configuration === undefined) throw new TypeError(`A ${meta.kind} has no configuration`);
  return configuration;
}

/** The place that a sealed value says it is of. It opens only if that is true. */
function placeOf(tenant: string, { for: text }: DeepReadonly<SealedValue>) {
  const [kind = '', id = '', ...path] = text.split('/');
  return { tenant, kind, id, path: path.join('/') };
}

const References = z.record(z.string(), Resolved).optional();
/** Earlier releases stored some in plain text. */
const List = z.array(z.string());
const Secrets = z.record(z.string(), z.union([Sealed, z.string()]));

function cannotCarryOut(type: string): Unsendable {
  const message = `The agent of the server is too old for tasks of the type ${type}: upgrade the agent`;
  return { code: 'agent_outdated', message };
}

const cannotReadCompose =
  'The agent of the server cannot read a compose file in a repository: upgrade the agent, or give the file as compose_file';
const cannotReadManifests =
  'The agent of the server cannot read what a repository declares: upgrade the agent, or let that of another server read it';
const cannotFindTags =
  'The agent of the server cannot find the newest tag of a repository: upgrade the agent, or let that of another server read it';
const cannotReadPrivate = 'The agent of the server cannot read repositories with a git credential: upgrade the agent';

const cannotLogIn: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server cannot log in to the registry of the application: upgrade the agent',
};

const cannotRun: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old for the settings of this instance: upgrade the agent',
};

const cannotKeep: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old for volumes: upgrade the agent',
};

const cannotRoute: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old to lead domains to applications: upgrade the agent',
};

const cannotArchive: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old to archive the log of a database: upgrade the agent',
};

const cannotServe: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old for functions: upgrade the agent',
};

const cannotShare: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old for functions with volumes: upgrade the agent',
};

const cannotCopy: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old to copy Docker volumes: upgrade the agent',
};

function unsendable(message: string): Unsendable {
  return { code: 'secret_unavailable', message };
}
