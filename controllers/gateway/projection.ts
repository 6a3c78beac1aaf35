import { z } from 'zod';
import { toEarlier } from '../../agent-protocol/earlier-service.ts';
import type { WireConfiguration, WireItem } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { TaskRow } from '../../agent-protocol/task-table.ts';
import { taskRow } from '../../agent-protocol/task-types.ts';
import { definitionOf } from '../../store/definition.ts';
import type { ServiceSpec, StoredTask } from '../../store/kinds/assignment.ts';
import { Sealed } from '../../store/kinds/fields.ts';
import type { Configuration, SealedValue } from '../../store/kinds/define.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unsealer } from '../../store/seal.ts';

type Assignment = ReadonlyResource<'assignment'>;
type Service = Extract<Assignment['desired']['spec'], { type: 'service' }>;
type CopiedVolume = Extract<Assignment['desired']['spec'], { type: 'copied_volume' }>;
type Values = DeepReadonly<Record<string, SealedValue | string>>;

/** The object that has the configuration of an assignment. */
type Holder = ReadonlyResource<'deployment'>;

/** An assignment that may be sent. */
export interface Sendable {
  it: Assignment;
  /** The object that has its configuration; absent where none is needed. */
  holder: Holder | undefined;
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
  /** Desired records of holders whose configuration was opened before, as one trial per record is enough. */
  readonly #proven = new WeakSet<object>();
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
    if (run === 'stopped' || spec.type === 'volume' || spec.type === 'copied_volume') return { it, holder: undefined };
    try {
      if (spec.type === 'service') return this.#configured(it, spec);
      this.#task(it, spec);
      return { it, holder: undefined };
    } catch (error) {
      if (error instanceof Unopened) return unsendable(error.message);
      throw error;
    }
  }

  /** What the agent lacks for the item; `undefined` if it has what it needs. */
  #lackOf({ spec, run }: Assignment['desired']): Unsendable | undefined {
    switch (spec.type) {
      case 'service':
        return this.#knowsServices || toEarlier(settingsOf(spec)) !== undefined ? undefined : cannotRun;
      case 'volume':
        return this.#options.capabilities.has('volumes') ? undefined : cannotKeep;
      case 'copied_volume':
        if (run === 'stopped') return this.#options.capabilities.has('volumes') ? undefined : cannotKeep;
        return this.#knowsCopies ? undefined : cannotCopy;
      default:
        return this.#lackOfTask(spec, run);
    }
  }

  #lackOfTask(spec: DeepReadonly<StoredTask>, run: Assignment['desired']['run']): Unsendable | undefined {
    const { capability, gated }: TaskRow = taskRow(spec.type);
    if (capability !== null && !this.#options.capabilities.has(capability)) return cannotCarryOut(spec.type);
    if (run === 'stopped') return undefined;
    const lacks = gated.find((it) => Object.hasOwn(spec, it.field) && !this.#options.capabilities.has(it.capability));
    return lacks && { code: 'agent_outdated', message: lacks.message };
  }

  #configured(it: Assignment, { config }: Service): Sendable | Unsendable {
    if (config === undefined) return { it, holder: undefined };
    const holder = this.#options.view.get(config.kind, config.id);
    if (holder === undefined || configurationIn(holder).of.id !== it.desired.workload_id)
      return unsendable(`Its ${config.kind} ${config.id} is not in the store: deploy it again`);
    if (!this.#proven.has(holder.desired)) this.configuration(holder);
    this.#proven.add(holder.desired);
    return { it, holder };
  }

  /** Id of the configuration that the item refers to. */
  configurationOf({ holder }: Sendable): string | undefined {
    return this.#isInline ? undefined : holder?.meta.id;
  }

  configuration(holder: Holder): WireConfiguration {
    const { of, env, files } = configurationIn(holder);
    const { tenant, id } = holder.meta;
    const place = (part: string) => ({ tenant, kind: of.kind, id: of.id, path: `${of.path}.${part}` });
    return {
      id,
      env: this.#open(env, place('env'), 'environment variable'),
      ...(files !== undefined && { files: this.#open(files, place('files'), 'content of the file') }),
    };
  }

  item(sendable: Sendable): WireItem {
    const { meta, desired } = sendable.it;
    const { spec, server_id: _, ...rest } = desired;
    // Agents of earlier releases expect the name that a version had there.
    const earlier = this.#knowsServices ? {} : { deployment_id: desired.version };
    const common = { id: meta.id, generation: meta.generation, tenant: meta.tenant, ...earlier, ...rest };
    if (spec.type === 'service') return { ...common, spec: this.#service(sendable, spec) };
    if (spec.type === 'volume') return { ...common, spec: { ...spec } };
    if (spec.type === 'copied_volume') return { ...common, spec: this.#copiedVolume(spec) };
    return { ...common, spec: this.#task(sendable.it, spec) };
  }

  /** Forgets the secrets that were opened for the items of a set. */
  forget(): void {
    this.#last = undefined;
  }

  #service(sendable: Sendable, spec: Service): WireItem['spec'] {
    const settings = settingsOf(spec);
    const id = this.configurationOf(sendable);
    const config = id === undefined ? {} : { config: id };
    if (this.#knowsServices) return { ...settings, ...config };
    const earlier = toEarlier(settings);
    if (earlier === undefined) throw new TypeError(`Assignment ${sendable.it.meta.id} was not checked`);
    return { ...earlier, ...config, ...(this.#isInline && { env: this.#inlined(sendable.holder)?.env ?? {} }) };
  }

  /** To an agent that does not know copies, only one that is to be removed is sent: as any other volume. */
  #copiedVolume(spec: CopiedVolume): WireItem['spec'] {
    return this.#knowsCopies ? { ...spec } : { type: 'volume', volume: spec.volume };
  }

  #inlined(holder: Holder | undefined): WireConfiguration | undefined {
    if (holder === undefined) return undefined;
    if (this.#last?.holder !== holder) this.#last = { holder, configuration: this.configuration(holder) };
    return this.#last.configuration;
  }

  /** A task that is to stop has none of its secrets. */
  #task({ meta, desired }: Assignment, spec: DeepReadonly<StoredTask>): WireItem['spec'] {
    const opened: WireItem['spec'] = { ...spec };
    for (const { field, path, what } of taskRow(spec.type).secrets) {
      const place = { tenant: meta.tenant, kind: desired.workload_kind, id: desired.workload_id, path };
      const values = desired.run === 'stopped' ? {} : Secrets.parse(opened[field]);
      opened[field] = this.#open(values, place, what);
    }
    return opened;
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

/** The settings of a service without the reference to its configuration, which the wire has in another form. */
function settingsOf(spec: Service): Omit<ServiceSpec, 'config'> {
  const { config: _, ...settings } = spec;
  return plainCopy<Omit<ServiceSpec, 'config'>>(settings);
}

/** @throws TypeError if the kind declares no configuration, which is a bug. */
function configurationIn(holder: Holder): Configuration {
  const configuration = definitionOf(holder.meta.kind).configuration?.(holder.desired as DesiredOf<'deployment'>);
  if (configuration === undefined) throw new TypeError(`A ${holder.meta.kind} has no configuration`);
  return configuration;
}

/** Earlier releases stored some in plain text. */
const Secrets = z.record(z.string(), z.union([Sealed, z.string()]));

function cannotCarryOut(type: string): Unsendable {
  const message = `The agent of the server is too old for tasks of the type ${type}: upgrade the agent`;
  return { code: 'agent_outdated', message };
}

const cannotRun: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old for the settings of this instance: upgrade the agent',
};

const cannotKeep: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old for volumes: upgrade the agent',
};

const cannotCopy: Unsendable = {
  code: 'agent_outdated',
  message: 'The agent of the server is too old to copy Docker volumes: upgrade the agent',
};

function unsendable(message: string): Unsendable {
  return { code: 'secret_unavailable', message };
}

/** A secret does not open. The message is for people. */
class Unopened extends Error {}
