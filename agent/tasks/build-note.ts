import type { Logger } from 'pino';
import type { LogStore } from '../logs/log-store.ts';
import { clean } from '../logs/clean.ts';
import { guessLevel } from '../logs/level.ts';
import type { Clock } from '../../time/clock.ts';

/** Returns what writes lines to the log of a build that is no task of the agent: the control plane asks for its parts. */
export function buildNote(
  { logs, clock, log }: { logs: Pick<LogStore, 'append'>; clock: Clock; log: Logger },
  { workload, instance }: { workload: string; instance: string },
  signal: AbortSignal,
): (text: string) => void {
  return (text) => {
    const at = clock.now().getTime();
    const entries = clean(text)
      .split('\n')
      .map((message) => ({ at, stream: 'build' as const, level: guessLevel(message), instance, message }));
    logs.append(workload, entries, signal).catch((error: unknown) => {
      log.warn({ err: error, instance }, 'Cannot store the output of a build: lines of it may be missing');
    });
  };
}
