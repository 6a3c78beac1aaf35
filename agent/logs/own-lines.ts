import { z } from 'zod';
import { agentSource } from '../../agent-protocol/logs.ts';
import type { Clock } from '../../time/clock.ts';
import { clean, maxLineBytes } from './clean.ts';
import { guessLevel } from './level.ts';
import type { Entry } from './record.ts';

/** Lines that may come at once, and how many more per second. */
const burst = 500;
const perSecond = 20;
/** Lines that wait until the log store is open. */
const earlyMost = burst;

/** A line of the agent's log, as its logger writes it. */
const Line = z.looseObject({
  time: z.int(),
  msg: z.string().default(''),
  level: z.unknown(),
  pid: z.unknown(),
  hostname: z.unknown(),
});

/**
 * The agent's own lines on their way into its log store, as the workload `agent`. They come from the logger, which has
 * taken the secrets out of them. What the log store itself logs must not come here; if it does all the same, a line per
 * line, the rate ends that: lines beyond it are left out and counted.
 */
export class OwnLines {
  readonly #clock: Clock;
  #early: Entry[] = [];
  #keep: ((entries: readonly Entry[]) => void) | undefined;
  #room = burst;
  #filledAt: number;
  #leftOut = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#filledAt = clock.monotonic();
  }

  /** Takes one line of JSON. Never throws. */
  write(line: string): void {
    if (!this.#hasRoom()) {
      this.#leftOut += 1;
      return;
    }
    const entries = [...this.#gap(), this.#entryOf(line)];
    if (this.#keep === undefined) {
      this.#early.push(...entries);
      if (this.#early.length > earlyMost) this.#early.shift();
    } else this.#keep(entries);
  }

  /** Passes all lines to `keep` from now on, first those that came before; until the returned function is called. */
  passTo(keep: (entries: readonly Entry[]) => void): () => void {
    if (this.#early.length > 0) keep(this.#early);
    this.#early = [];
    this.#keep = keep;
    return () => {
      this.#keep = () => undefined;
    };
  }

  #hasRoom(): boolean {
    const now = this.#clock.monotonic();
    this.#room = Math.min(burst, this.#room + ((now - this.#filledAt) / 1000) * perSecond);
    this.#filledAt = now;
    if (this.#room < 1) return false;
    this.#room -= 1;
    return true;
  }

  #gap(): Entry[] {
    if (this.#leftOut === 0) return [];
    const message = `${this.#leftOut} lines of the agent were left out here, as it wrote too many: they are in its own log`;
    this.#leftOut = 0;
    const at = this.#clock.now().getTime();
    return [{ at, stream: 'system', level: 'warn', instance: agentSource, message }];
  }

  #entryOf(line: string): Entry {
    const level = guessLevel(line);
    const parsed = parse(line);
    const at = parsed?.at ?? this.#clock.now().getTime();
    const message = shortened(clean((parsed?.message ?? line).replaceAll('\n', ' ')));
    return { at, stream: 'stdout', level, instance: agentSource, message };
  }
}

/** The message, then the other fields as JSON. */
function parse(line: string): { at: number; message: string } | undefined {
  try {
    const { time, msg, level: _, pid: _pid, hostname: _host, ...fields } = Line.parse(JSON.parse(line));
    const rest = Object.keys(fields).length === 0 ? '' : ` ${JSON.stringify(fields)}`;
    return { at: time, message: `${msg}${rest}` };
  } catch {
    return undefined;
  }
}

/** A character has at most three bytes per unit of its length. */
function shortened(text: string): string {
  const most = maxLineBytes / 3;
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
