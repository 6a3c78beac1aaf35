import type { AskParams } from '../../agent-protocol/messages.ts';
import type { Archive, Dump, Query } from '../../databases/engine.ts';
import { engines } from '../../databases/engines.ts';
import type { Observer } from '../engine/observer.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';

/** The control plane, as tasks ask it for addresses that it signs for them. */
export interface AddressSource {
  addresses(params: AskParams, signal: AbortSignal): Promise<readonly string[]>;
}

/** How data of that engine is dumped and restored. @throws RuntimeFailure for one that this release does not know */
export function dumpOf(type: string): Dump {
  const dump = Object.values(engines).find((it) => it.type === type)?.dump;
  if (dump !== undefined) return dump;
  const message = `The agent of the server knows no backups of ${type}: upgrade the agent`;
  throw new RuntimeFailure('agent_outdated', message, { retryable: false });
}

/** The container in which an instance runs. @throws RuntimeFailure if none does */
export function runningIn(observer: Pick<Observer, 'of'>, instance: string): string {
  const running = observer.of(instance).find(({ container }) => container.state === 'running');
  if (running !== undefined) return running.container.id;
  const message = 'The database does not run at the moment: see its log, and begin again once it serves';
  throw new RuntimeFailure('not_serving', message, { retryable: true });
}

/** How that engine is brought to an instant. @throws RuntimeFailure for one of which this release knows no way */
export function archiveOf(type: string): Archive {
  const archive = Object.values(engines).find((it) => it.type === type)?.archive;
  if (archive !== undefined) return archive;
  const message = `The agent of the server cannot archive ${type}: upgrade the agent`;
  throw new RuntimeFailure('agent_outdated', message, { retryable: false });
}

const queryMs = 60_000;

/** Asks the engine in the container of an instance. @throws RuntimeFailure if it does not run; Error with its words */
export async function answerIn<Answer>(
  { runtime, observer }: { runtime: Pick<ContainerRuntime, 'run'>; observer: Pick<Observer, 'of'> },
  instance: string,
  query: Query<Answer>,
  signal: AbortSignal,
): Promise<Answer> {
  const { exitCode, output } = await runtime.run(
    runningIn(observer, instance),
    query.command,
    { timeoutMs: queryMs },
    signal,
  );
  if (exitCode !== 0) throw new Error(`The database does not answer: ${output.trim().slice(-500)}`);
  return query.read(output);
}
