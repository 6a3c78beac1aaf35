import { isPrivate } from '../../agent-protocol/control-plane-url.ts';
import { hashJoinToken } from '../../agent-protocol/join-token.ts';
import { conflict } from '../../store/errors.ts';
import type { Provisioning } from '../../store/kinds/operation.ts';
import type { StepName } from '../../store/kinds/provisioning-step.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { askedOf } from '../../store/provisioning.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { OperationFailure, Unfinished } from '../operation/run.ts';
import type { Operation, Run, RunTools } from '../operation/run.ts';
import type { Facts } from '../ssh/facts.ts';
import type { HostKey } from '../ssh/host-key.ts';
import type { Visit } from '../ssh/machines.ts';
import { otherServerOn, remedyFor } from '../ssh/remedy.ts';
import { SshFailure } from '../ssh/ssh-failure.ts';
import { jobLookMs, jobSeconds, jobStateOf, looksAt, packagesScript, starts } from './job.ts';
import type { Job, JobName, JobState, Payload } from './job.ts';
import { faultOfAddress } from './address.ts';
import { planOf } from './plan.ts';
import type { Plan } from './plan.ts';
import { decisiveStep, faultOf, openStep, StepFailure, stepsOf, triesAgain } from './steps.ts';
import type { Fault, Seen } from './steps.ts';

type Server = ReadonlyResource<'server'>;
type Steps = Map<StepName, Seen>;

/** So many failures at one step end it. */
export const mostFailures = 5;
/** Pause after the first failure; each further one doubles it. */
export const firstPauseMs = 15_000;
/** Pause between two looks at what goes on. */
const pollMs = 2000;
const isInstalled: Seen = { reason: 'Installed', message: 'The agent is installed' };
const jobLog = '/var/lib/setpoint/provision/log';

/** What an attempt came to in which nothing failed. */
interface Going extends Seen {
  /** The first step that is not done. */
  step: StepName;
  againMs: number;
  /** Of a token that was made now. */
  tokenHash?: string;
}

/**
 * Makes a server of a machine that SSH reaches. Each run is one attempt of seconds: it looks, and lets the machine do
 * the first thing that is missing, as a job that goes on when the connection breaks. So it does not matter who made the
 * attempt before, and how far that came.
 */
export const provision: Run = async (it, tools) => {
  const { ctx, tokens } = tools;
  const server = it.desired.server_id === undefined ? undefined : ctx.view.get('server', it.desired.server_id);
  // the deletion goes on by what is known of the machine
  if (server === undefined || isDeleting(server))
    throw new OperationFailure('not_found', 'Its server was deleted', progressOf(it));
  if (server.desired.agent_public_key !== undefined) {
    tokens.forget(it.meta.id);
    const known = progressOf(it);
    // an agent often joins before its job is seen to end
    if (known.join_token_hash !== undefined) announce(server, known, new Map([['AgentInstalled', isInstalled]]), tools);
    return {};
  }
  if (askedOf(server, ctx.view) !== it.desired.asked)
    throw new OperationFailure('superseded', 'What leads to its machine was changed');
  const before = progressOf(it);
  const now = ctx.clock.now().getTime();
  if (now >= Date.parse(it.desired.requested_at) + it.desired.deadline_seconds * 1000)
    throw overdue(it, before, remedyFor(triesAgain, server, ctx.view));
  const pause = before.not_before === undefined ? 0 : Date.parse(before.not_before) - now;
  if (pause > 0) return new Unfinished(before, pause, 'the pause after a failure to end');
  using turn = tools.turns.take(`${ctx.tenant}/${it.meta.id}`, ctx.clock.monotonic());
  if (turn === undefined) return new Unfinished(before, pollMs, 'an attempt of another server to end');
  const done: Steps = new Map();
  try {
    const { againMs, tokenHash, ...open } = await attempt({ it, server, before, done, tools });
    const { not_before: _, ...rest } = grown(before, done);
    const steps = stepsOf(done, open);
    const progress = { ...rest, steps, ...(tokenHash !== undefined && { join_token_hash: tokenHash }) };
    return new Unfinished(progress, againMs, 'its machine to do the next step');
  } catch (error) {
    if (error instanceof SshFailure) noteShown(error, server, done);
    const found = faultIn(error, done, tools);
    if (found === undefined) throw error;
    const fault = { ...found, remedy: remedyFor(found.remedy, server, ctx.view) };
    ctx.log.info({ err: error, server: server.meta.id, step: fault.step }, 'A step of provisioning failed');
    return failed(fault, { it, server, before: grown(before, done), done, tools });
  } finally {
    if (!ctx.signal.aborted) announce(server, before, done, tools);
  }
};

/** One attempt: the operation, what came of the attempts before, and which steps this one has found done. */
interface Attempt {
  it: Operation;
  server: Server;
  before: Provisioning;
  done: Steps;
  tools: RunTools;
}

/** How far the operation has come. */
function progressOf({ desired, observed }: Operation): Provisioning {
  const isSame = observed?.asked === desired.asked && observed?.finished_at === undefined;
  const known = isSame ? observed?.provisioning : undefined;
  if (known !== undefined) return plainCopy<Provisioning>(known);
  return { steps: stepsOf(new Map()), done: 0, failures: 0, failed_jobs: 0 };
}

/** More steps that are done at once than ever before forgive the failures. */
function grown(before: Provisioning, done: Steps): Provisioning {
  return done.size > before.done ? { ...before, done: done.size, failures: 0 } : before;
}

/** Notes what is done in `done`, so that it is known also when the attempt fails. @throws SshFailure, StepFailure */
async function attempt(its: Attempt): Promise<Going> {
  const { server, done, tools } = its;
  const { ctx, machines, installation, signal } = tools;
  const address = installation.address(ctx.tenant);
  const { allowPlainHttp } = installation;
  const fault = faultOfAddress(address, { machine: server.desired.ip_address, allowPlainHttp });
  if (fault !== undefined) throw new StepFailure(fault);
  const release = await installation.script();
  if ('fault' in release) throw new StepFailure(releaseFaults[release.fault]);
  return machines.visit(server, ctx.view, signal, async (visit) => {
    done.set('Reachable', answers);
    done.set('HostKeyTrusted', trusted(await pinned(server, visit.hostKey, tools)));
    done.set('LoggedIn', { reason: 'Accepted', message: `It takes the ${visit.login} of ${server.desired.username}` });
    const { facts, engine, says } = await complete(its, visit, address);
    if (engine === undefined)
      return going(
        'EngineInstalled',
        'Installing',
        saying('The Docker engine and what else is missing is installed', says),
      );
    done.set('EngineInstalled', { reason: 'Answers', message: engine });
    const plainHttp = allowPlainHttp && !isPrivate(address);
    const payload = { script: release.script, server: address, plainHttp };
    const state = await askForAgent(its, { visit, facts, payload });
    if (state !== 'done' && 'step' in state) return state;
    if (state !== 'done')
      return going('AgentInstalled', 'Installing', saying('The agent is fetched, installed and started', state.says));
    done.set('AgentInstalled', isInstalled);
    return going('AgentJoined', 'Joining', 'The control plane waits for the agent to join');
  });
}

const answers: Seen = { reason: 'Answers', message: 'An SSH server answers' };

function trusted({ type, fingerprint }: HostKey): Seen {
  return { reason: 'Pinned', message: `Its host key is the pinned one: ${type} ${fingerprint}` };
}

/** Notes what a login that failed has shown all the same. */
function noteShown({ hostKey }: SshFailure, { desired }: Server, done: Steps): void {
  if (hostKey === undefined) return;
  done.set('Reachable', answers);
  if (desired.host_key?.fingerprint === hostKey.fingerprint) done.set('HostKeyTrusted', trusted(hostKey));
}

function going(step: StepName, reason: string, message: string): Going {
  return { step, reason, message, againMs: pollMs };
}

/** What is done, and what the job on the machine said last. */
function saying(message: string, says: string | undefined): string {
  return says === undefined ? message : `${message}: ${says}`;
}

const releaseFaults: Readonly<Record<'absent' | 'damaged', Fault>> = {
  absent: {
    step: 'AgentInstalled',
    reason: 'NoRelease',
    message: 'The control plane has no release of the agent, and nothing was done on the machine',
    remedy: `Build one by make release; ${triesAgain}`,
    isFinal: true,
  },
  damaged: {
    step: 'AgentInstalled',
    reason: 'ReleaseDamaged',
    message: 'The release of the agent on the control plane is damaged, and nothing was done on the machine',
    remedy: `Build it again by make release, or copy its folder again; ${triesAgain}`,
    isFinal: true,
  },
};

/** Pins the first host key, before anything but the login is sent. @throws conflict if the server was changed meanwhile */
async function pinned(server: Server, seen: HostKey, { ctx }: RunTools): Promise<HostKey> {
  if (server.desired.host_key !== undefined) return seen;
  const { ip_address, port } = server.desired;
  const isSame = (it: Pick<Server, 'desired'>['desired']): boolean => it.ip_address === ip_address && it.port === port;
  const pin = await ctx.amend(
    'server',
    server.meta.id,
    (draft) => {
      if (isSame(draft)) draft.host_key ??= { type: seen.type, fingerprint: seen.fingerprint };
    },
    { audited: 'controller provision' },
  );
  if (pin === undefined || !isSame(pin.desired) || pin.desired.host_key?.fingerprint !== seen.fingerprint)
    throw conflict(`Cannot pin the host key as the server was changed: ${server.meta.id}`);
  const message = `Its host key is pinned from now on: ${seen.type} ${seen.fingerprint}`;
  ctx.event(server, { type: 'normal', reason: 'HostKeyPinned', message });
  return seen;
}

/**
 * Looks at the machine, and lets it install what is missing. `engine`: what is known of the engine once nothing is; `says`:
 * what the installation said last.
 * @throws SshFailure, StepFailure
 */
async function complete(
  its: Attempt,
  visit: Visit,
  address: string,
): Promise<{ facts: Facts; engine: string | undefined; says?: string | undefined }> {
  const first = await examine(its, visit);
  if (first.plan.job === 'agent') return { facts: first.facts, engine: first.plan.engine };
  const job = jobOf(its, 'packages');
  const payload = { script: packagesScript, server: address, token: '' };
  const state = judged(await ask(visit, first.facts, starts(job, payload)), 'packages');
  if (state !== 'done') return { facts: first.facts, engine: undefined, says: state.says };
  const { facts, plan } = await examine(its, visit);
  if (plan.job === 'agent') return { facts, engine: plan.engine };
  throw new StepFailure({
    step: 'EngineInstalled',
    reason: 'StillMissing',
    message: 'What was installed cannot be used',
    remedy: `See ${jobLog} on the machine, and whether docker version, git and iptables run there; ${triesAgain}`,
    isFinal: false,
    ofJob: true,
  });
}

async function examine(
  {
    server,
    done,
    tools: {
      ctx: { view },
    },
  }: Attempt,
  visit: Visit,
): Promise<{ facts: Facts; plan: Plan }> {
  const look = await visit.look();
  const { fault, fits, plan } = planOf(look, otherServerOn(look.facts, server, view));
  if (fits !== undefined) done.set('MachineFits', { reason: 'Fits', message: fits });
  if (fault !== undefined) throw new StepFailure(fault);
  return { facts: look.facts, plan };
}

/**
 * A job that failed is followed by another one, so that what is left of it on the machine is not taken for the result of
 * the next. A connection that broke is not.
 */
function jobOf({ it, before }: Attempt, name: JobName): Job {
  const { asked = '', requested_at } = it.desired;
  return { id: uuidv5(it.meta.id, `${asked}/${requested_at}/${before.failed_jobs}/${name}`), name };
}

async function ask(visit: Visit, facts: Facts, script: string): Promise<JobState> {
  const { stdout, stderr } = await visit.runAsRoot(facts, script, jobLookMs);
  return jobStateOf(stdout, stderr, (text) => visit.hide(text));
}

/**
 * Starts the installation of the agent, unless it runs or has ended. The hash of a token is stored before the token is
 * sent, which takes an attempt of its own.
 */
async function askForAgent(
  its: Attempt,
  { visit, facts, payload }: { visit: Visit; facts: Facts; payload: Omit<Payload, 'token'> },
): Promise<Underway | 'done' | Going> {
  const { it, server, before, tools } = its;
  const job = jobOf(its, 'agent');
  const seen = await ask(visit, facts, looksAt(job));
  if (seen.state !== 'none') return judged(seen, 'agent');
  const token = tools.tokens.of(it.meta.id);
  if (token !== undefined && hashJoinToken(token) === before.join_token_hash)
    return judged(await ask(visit, facts, starts(job, { ...payload, token })), 'agent');
  const tokenHash = hashJoinToken(tools.tokens.renew(it.meta.id, server.meta.id));
  return {
    ...going('AgentInstalled', 'Preparing', 'The installation of the agent is prepared'),
    againMs: 0,
    tokenHash,
  };
}

const jobSteps: Readonly<Record<JobName, Pick<Fault, 'step' | 'reason' | 'message'>>> = {
  packages: {
    step: 'EngineInstalled',
    reason: 'InstallationFailed',
    message: 'The Docker engine and what else is missing could not be installed',
  },
  agent: { step: 'AgentInstalled', reason: 'InstallationFailed', message: 'The agent could not be installed' },
};

/** A job that has not ended, with its last message. */
interface Underway {
  says: string | undefined;
}

/** @throws StepFailure if the job failed, or the machine cannot do it */
function judged(state: JobState, name: JobName): Underway | 'done' {
  const { step, reason, message } = jobSteps[name];
  switch (state.state) {
    case 'none':
      return { says: undefined };
    case 'running':
      return { says: state.says };
    case 'ended': {
      if (state.code === 0) return 'done';
      const why =
        state.code === 124 ? `it took longer than ${jobSeconds[name] / 60} minutes. ${state.says}` : state.says;
      throw new StepFailure({
        step,
        reason,
        message: `${message}: ${why}`,
        remedy: `All that it said is in ${jobLog} on the machine; ${triesAgain}`,
        isFinal: false,
        ofJob: true,
      });
    }
    case 'impossible':
      throw new StepFailure({
        step,
        reason: 'ProgramMissing',
        message: `The machine lacks the program ${state.lacks}`,
        remedy: `Install the packages util-linux and coreutils there; ${triesAgain}`,
        isFinal: true,
      });
    case 'unknown':
      throw new StepFailure({
        step,
        reason: 'NoAnswer',
        message: `The machine did not run the script of a job: ${state.says}`,
        remedy: `Look at what the login and sudo say there, and whether /var/lib/setpoint can be written; ${triesAgain}`,
        isFinal: false,
      });
  }
}

/** The fault behind an error; `undefined` for one that is none of the machine. */
function faultIn(error: unknown, done: Steps, { ctx, signal }: RunTools): Fault | undefined {
  if (error instanceof StepFailure) return error.fault;
  if (error instanceof SshFailure) return faultOf(error, done);
  if (ctx.signal.aborted || !signal.aborted) return undefined;
  return {
    step: openStep(done),
    reason: 'TooSlow',
    message: 'The machine takes too long',
    remedy: 'Look at its load, and at the network between',
    isFinal: false,
  };
}

/** Notes a failure: another attempt follows after a pause. @throws OperationFailure if none does */
function failed(fault: Fault, { it, server, before, done, tools }: Attempt): Unfinished {
  const { ctx, tokens } = tools;
  const failures = before.failures + 1;
  const { not_before: _, join_token_hash, ...rest } = before;
  const isOfJob = fault.ofJob === true;
  // a token that was given to a job that failed is void
  if (isOfJob) tokens.forget(it.meta.id);
  const progress: Provisioning = {
    ...rest,
    steps: stepsOf(done, fault),
    failures,
    failed_jobs: before.failed_jobs + (isOfJob ? 1 : 0),
    ...(!isOfJob && join_token_hash !== undefined && { join_token_hash }),
  };
  const message = `${fault.message}. ${fault.remedy}`;
  if (fault.isFinal || failures >= mostFailures) {
    tokens.forget(it.meta.id);
    throw new OperationFailure('failed', message, progress);
  }
  ctx.event(server, { type: 'warning', reason: fault.reason, message });
  const pauseMs = firstPauseMs * 2 ** (failures - 1);
  const not_before = new Date(ctx.clock.now().getTime() + pauseMs).toISOString();
  return new Unfinished({ ...progress, not_before }, pauseMs, 'the pause after a failure to end');
}

/** The time is over: the step that was open then has failed. */
function overdue({ desired }: Operation, before: Provisioning, again: string): OperationFailure {
  const open = decisiveStep(before.steps);
  const time = `It did not end within ${desired.deadline_seconds / 60} minutes`;
  const message =
    open?.status === 'false' ? `${time}: ${open.message}` : `${time}. See ${jobLog} on the machine; ${again}`;
  const { join_token_hash: _, not_before: __, ...rest } = before;
  const steps = before.steps.map((step) =>
    step === open ? { ...step, status: 'false' as const, reason: 'DeadlineExceeded', message } : { ...step },
  );
  return new OperationFailure('timeout', message, { ...rest, steps });
}

/** Records an event for each step that changes the machine, once it is done for the first time. */
function announce(server: Server, before: Provisioning, done: Steps, { ctx }: RunTools): void {
  for (const type of ['EngineInstalled', 'AgentInstalled'] as const) {
    const message = done.get(type)?.message;
    const wasDone = before.steps.some((step) => step.type === type && step.status === 'true');
    if (message !== undefined && !wasDone) ctx.event(server, { type: 'normal', reason: type, message });
  }
}
