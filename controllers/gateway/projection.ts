import type { FailureCode, WireAssignment, WireConfiguration } from '../../agent-protocol/assignment.ts';
import type { SealedValue } from '../../store/kinds/define.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unsealer } from '../../store/seal.ts';

type Assignment = ReadonlyResource<'assignment'>;
type Deployment = ReadonlyResource<'deployment'>;
type Spec<T extends 'service' | 'build'> = Extract<Assignment['desired']['spec'], { type: T }>;
type Values = DeepReadonly<Record<string, SealedValue | string>>;

/** An assignment that may be sent, with the deployment that has its configuration. */
export interface Sendable {
  it: Assignment;
  /** Absent where no configuration is needed. */
  deployment: Deployment | undefined;
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
  readonly #o: Options;
  /** Desired records of deployments whose configuration was opened before, as one trial per record is enough. */
  readonly #proven = new WeakSet<object>();
  /** The last configuration that was inlined: items of one deployment come one after another. */
  #last: { deployment: Deployment; env: Record<string, string> } | undefined;

  constructor(options: Options) {
    this.#o = options;
  }

  get #isInline(): boolean {
    return !this.#o.capabilities.has('configurations');
  }

  /**
   * Whether an assignment may be sent. One that is to run must not be if one of its secrets does not open: nothing is
   * started with less than its whole configuration. One that is to stop needs no secrets. A build of a commit must not
   * be sent to an agent that would build the head of the branch instead.
   */
  check(it: Assignment): Sendable | Unsendable {
    const { spec, run, deployment_id: id } = it.desired;
    if (run === 'stopped') return { it, deployment: undefined };
    try {
      if (spec.type === 'build') {
        if (spec.commit !== undefined && !this.#o.capabilities.has('build.commit')) return outdated;
        this.#buildArgs(it, spec);
        return { it, deployment: undefined };
      }
      const deployment = this.#o.view.get('deployment', id);
      if (deployment?.desired.application_id !== it.desired.workload_id)
        return unsendable(`Its deployment ${id} is not in the store: deploy the application again`);
      if (!this.#proven.has(deployment.desired)) this.#env(deployment);
      this.#proven.add(deployment.desired);
      return { it, deployment };
    } catch (error) {
      if (error instanceof Unopened) return unsendable(error.message);
      throw error;
    }
  }

  /** Id of the configuration that the item refers to: its deployment's. */
  configurationOf({ deployment }: Sendable): string | undefined {
    return this.#isInline ? undefined : deployment?.meta.id;
  }

  configuration(deployment: Deployment): WireConfiguration {
    return { id: deployment.meta.id, env: this.#env(deployment) };
  }

  item(sendable: Sendable): WireAssignment {
    const { meta, desired } = sendable.it;
    const { spec, server_id: _, ...rest } = desired;
    const common = { id: meta.id, generation: meta.generation, tenant: meta.tenant, ...rest };
    if (spec.type === 'service') return { ...common, spec: this.#service(sendable, spec) };
    const args = desired.run === 'stopped' ? {} : this.#buildArgs(sendable.it, spec);
    return { ...common, spec: { ...spec, build_args: args } };
  }

  /** Forgets the secrets that were opened for the items of a set. */
  forget(): void {
    this.#last = undefined;
  }

  #service(sendable: Sendable, stored: Spec<'service'>): WireAssignment['spec'] {
    const { command, env: _, ...spec } = stored;
    const config = this.configurationOf(sendable);
    return {
      ...spec,
      ...(command !== undefined && { command: [...command] }),
      ...(config !== undefined && { config }),
      ...(this.#isInline && { env: this.#inlined(sendable.deployment) }),
    };
  }

  #inlined(deployment: Deployment | undefined): Record<string, string> {
    if (deployment === undefined) return {};
    if (this.#last?.deployment !== deployment) this.#last = { deployment, env: this.#env(deployment) };
    return this.#last.env;
  }

  #env({ meta, desired }: Deployment): Record<string, string> {
    const place = { tenant: meta.tenant, id: desired.application_id, path: 'config.env' };
    return this.#open(desired.config.env, place, 'environment variable');
  }

  #buildArgs({ meta, desired }: Assignment, { build_args: args }: Spec<'build'>): Record<string, string> {
    const place = { tenant: meta.tenant, id: desired.workload_id, path: 'source.build_args' };
    return this.#open(args, place, 'build argument');
  }

  #open(values: Values, of: { tenant: string; id: string; path: string }, what: string): Record<string, string> {
    const opened: Record<string, string> = {};
    for (const [key, value] of Object.entries(values)) {
      const place = { tenant: of.tenant, kind: 'application', id: of.id, path: `${of.path}.${key}` };
      try {
        opened[key] = typeof value === 'string' ? value : this.#o.unsealer.unseal(value, place);
      } catch (cause) {
        const message = `The ${what} ${key} cannot be decrypted: its key is not on the control plane`;
        throw new Unopened(message, { cause });
      }
    }
    return opened;
  }
}

const outdated: Unsendable = {
  code: 'agent_outdated',
  message:
    'The agent of the server cannot build an earlier commit: upgrade the agent, or deploy the head of the branch',
};

function unsendable(message: string): Unsendable {
  return { code: 'secret_unavailable', message };
}

/** A secret does not open. The message is for people. */
class Unopened extends Error {}
