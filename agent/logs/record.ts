import type { LogLine } from '../../agent-protocol/logs.ts';

/** A line before it gets its number. */
export interface Entry {
  /** Wall clock, in milliseconds since 1970. */
  at: number;
  stream: LogLine['stream'];
  level: LogLine['level'];
  instance: string;
  message: string;
}

/** A stored line with its number. */
export interface StoredLine extends Entry {
  seq: number;
  /**
   * When the store took the line, in milliseconds since 1970: never before `at`, and never before that of an earlier
   * line of any workload. An earlier release did not store it; it is `at` then.
   */
  arrived: number;
}

/** Times within a log may go back by this: the clock was set, or lines of an instance were captured late. */
export const disorderMs = 3_600_000;

const streams = { o: 'stdout', e: 'stderr', b: 'build', s: 'system' } as const;
const levels = { d: 'debug', i: 'info', w: 'warn', e: 'error' } as const;
const streamCode = { stdout: 'o', stderr: 'e', build: 'b', system: 's' } as const;
const levelCode = { debug: 'd', info: 'i', warn: 'w', error: 'e' } as const;

/**
 * Stands between the time of a line and its delay. An earlier release reads the time and its fraction as one number,
 * which the fraction does not change: it is below the precision of a double.
 */
const delayMark = '.00000';

/**
 * Encodes one stored line: `<seq> <time> <stream><level> <instance> <message>` and a line feed. The time is in
 * milliseconds since 1970; the milliseconds until the store took the line follow it after {@link delayMark}, if any.
 */
export function encodeLine(seq: number, entry: Entry, arrived: number): string {
  const time = arrived > entry.at ? `${entry.at}${delayMark}${arrived - entry.at}` : String(entry.at);
  return `${seq} ${time} ${streamCode[entry.stream]}${levelCode[entry.level]} ${entry.instance} ${entry.message}\n`;
}

/** Decodes a stored line. Returns `undefined` for a line that a crash left half written. */
export function decodeLine(text: string): StoredLine | undefined {
  const seqEnd = text.indexOf(' ');
  const atEnd = text.indexOf(' ', seqEnd + 1);
  const instanceEnd = text.indexOf(' ', atEnd + 4);
  if (seqEnd <= 0 || atEnd === -1 || instanceEnd === -1) return undefined;
  const seq = Number(text.slice(0, seqEnd));
  const time = text.slice(seqEnd + 1, atEnd);
  const mark = time.indexOf(delayMark);
  const at = Number(mark === -1 ? time : time.slice(0, mark));
  const arrived = mark === -1 ? at : at + Number(time.slice(mark + delayMark.length));
  const stream = streams[text[atEnd + 1] as keyof typeof streams] as StoredLine['stream'] | undefined; // any character
  const level = levels[text[atEnd + 2] as keyof typeof levels] as StoredLine['level'] | undefined; // any character
  if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(at) || !Number.isSafeInteger(arrived)) return undefined;
  if (stream === undefined || level === undefined) return undefined;
  return {
    seq,
    at,
    arrived,
    stream,
    level,
    instance: text.slice(atEnd + 4, instanceEnd),
    message: text.slice(instanceEnd + 1),
  };
}

export function toLogLine(line: StoredLine): LogLine {
  return {
    seq: line.seq,
    timestamp: new Date(line.at).toISOString(),
    stream: line.stream,
    level: line.level,
    message: line.message,
    instance_id: line.instance,
  };
}
