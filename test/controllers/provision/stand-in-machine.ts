import { join } from '../../../controllers/gateway/authenticate.ts';
import type { Installation, ReachMachines } from '../../../controllers/operation/run.ts';
import type { Facts } from '../../../controllers/ssh/facts.ts';
import type { HostKey } from '../../../controllers/ssh/host-key.ts';
import type { Look, Visit } from '../../../controllers/ssh/machines.ts';
import { hiding } from '../../../controllers/ssh/login.ts';
import { SshFailure } from '../../../controllers/ssh/ssh-failure.ts';
import { makeJoinToken, parseJoinToken } from '../../../agent-protocol/join-token.ts';
import type { Repository } from '../../../store/repo.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { Clock } from '../../../time/clock.ts';

const controlKey = Buffer.alloc(32, 7).toString('base64url');

/** A job of the machine, as it was started. */
interface StartedJob {
  kind: 'packages' | 'agent';
  token: string;
  state: 'running' | 'ended';
  code: number;
  says: string;
}

/**
 * A machine that answers as one by SSH would, without one: it takes the scripts by what is in them. Its agent joins by
 * the gateway's own judgement of its token.
 */
export class StandInMachine implements ReachMachines {
  hostKey: HostKey = { type: 'ssh-ed25519', fingerprint: `SHA256:${'a'.repeat(43)}` };
  facts: Facts = {
    os: 'debian',
    os_version: '12',
    os_name: 'Debian GNU/Linux 12',
    kernel: 'Linux',
    machine: 'x86_64',
    root: 'yes',
    init: 'other',
    packages: 'apt-get',
    disk_free_kib: 50 * 1024 ** 2,
    memory_kib: 4 * 1024 ** 2,
    port_80: 'free',
    port_443: 'free',
    fetch: 'yes',
  };
  /** Called before each of its answers; what it throws is what the caller meets. */
  before: (what: 'connect' | 'look' | 'job' | 'answer') => void = () => undefined;
  /** How a job ends; `undefined`: it does what it is for. */
  ends: (kind: StartedJob['kind']) => { code: number; says: string } | undefined = () => undefined;
  /** What its words are shown without. */
  password = 'of nothing that it says';
  /** Whether jobs go on until the test ends them. */
  isSlow = false;
  /** The last message of a job that runs. */
  says = '';
  readonly jobs = new Map<string, StartedJob>();
  /** Tokens that it was given, oldest first. */
  readonly tokens: string[] = [];
  /** The argument about plain http of each job that installs the agent. */
  readonly plainHttp: string[] = [];
  /** Keys of the agents that joined, and refusals. */
  readonly joins: string[] = [];
  visits = 0;
  readonly #repo: () => Repository;
  readonly #clock: Clock;

  constructor(clock: Clock, repo: () => Repository) {
    this.#clock = clock;
    this.#repo = repo;
  }

  look(server: ReadonlyResource<'server'>, view: TenantView, signal: AbortSignal): Promise<Look> {
    return this.visit(server, view, signal, (visit) => visit.look());
  }

  async visit<T>(
    { desired: { host_key: pinned } }: ReadonlyResource<'server'>,
    _view: TenantView,
    _signal: AbortSignal,
    use: (visit: Visit) => Promise<T>,
  ): Promise<T> {
    this.visits += 1;
    this.before('connect');
    const { hostKey } = this;
    if (pinned !== undefined && pinned.fingerprint !== hostKey.fingerprint)
      throw new SshFailure('host_key_changed', 'Its host key is another one', 'Trust the new key', { hostKey });
    return use({
      hostKey,
      login: 'key',
      hide: hiding({ type: 'password', password: this.password }),
      look: async () => {
        this.before('look');
        return { hostKey, login: 'key', facts: { ...this.facts }, at: this.#clock.now().getTime() };
      },
      runAsRoot: async (_facts, script) => {
        this.before('job');
        const stdout = await this.#run(script);
        this.before('answer');
        return { code: 0, stdout, stderr: '' };
      },
    });
  }

  /** Ends the job that runs. */
  async finish(): Promise<void> {
    for (const job of this.jobs.values()) if (job.state === 'running') await this.#end(job);
  }

  async #run(script: string): Promise<string> {
    const id = /^job='([^']*)'/.exec(script)?.[1] ?? '';
    const running = [...this.jobs.values()].some(({ state }) => state === 'running');
    if (!running && !this.jobs.has(id) && script.includes('starts=yes')) {
      const kind = script.includes('stands in for install.sh') ? 'agent' : 'packages';
      const token = /token='([^']*)'/.exec(script)?.[1] ?? '';
      if (token !== '') this.tokens.push(token);
      if (kind === 'agent') this.plainHttp.push(/plain_http=(\S*)/.exec(script)?.[1] ?? 'none');
      const job: StartedJob = { kind, token, state: 'running', code: 0, says: '' };
      this.jobs.set(id, job);
      if (!this.isSlow) await this.#end(job);
    }
    const job = this.jobs.get(id);
    if (job?.state === 'ended') return `state=ended\ncode=${job.code}\nsays=${job.says}\n`;
    return [...this.jobs.values()].some(({ state }) => state === 'running')
      ? `state=running\nsays=${this.says}\n`
      : 'state=none\n';
  }

  async #end(job: StartedJob): Promise<void> {
    job.state = 'ended';
    const end = this.ends(job.kind);
    if (end !== undefined) Object.assign(job, end);
    else if (job.kind === 'packages')
      Object.assign(this.facts, { docker: '26.1.5', docker_client: '26.1.5', git: '2.39.5', iptables: 'yes' });
    else await this.join(job.token);
  }

  /** An agent of the machine joins by that token; answers whether it was let in. */
  async join(token: string, publicKey = 'key of the agent'): Promise<boolean> {
    const server = parseJoinToken(token)?.serverId ?? '';
    const hello = { server_id: server, public_key: publicKey, join_token: token };
    const refused = await join(hello as Parameters<typeof join>[0], this.#repo(), this.#clock); // all that is read of it
    this.joins.push(refused === undefined ? publicKey : refused.refuse.code);
    return refused === undefined;
  }
}

/** An installation whose release is a script that the stand-in machine knows. */
export function standInInstallation(): Installation & {
  release: Awaited<ReturnType<Installation['script']>>;
} {
  let made = 0;
  return {
    release: { script: '# stands in for install.sh\n' },
    async script() {
      return this.release;
    },
    address: (tenant) => `https://setpoint.test/${tenant}`,
    allowPlainHttp: false,
    joinToken: (server) => makeJoinToken(server, Buffer.alloc(16, (made += 1)), controlKey),
  };
}
