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
}

const streams = { o: 'stdout', e: 'stderr', b: 'build', s: 'system' } as const;
const levels = { d: 'debug', i: 'info', w: 'warn', e: 'error' } as const;
const streamCode = { stdout: 'o', stderr: 'e', build: 'b', system: 's' } as const;
const levelCode = { debug: 'd', info: 'i', warn: 'w', error: 'e' } as const;

/** Encodes one stored line: `<seq> <milliseconds> <stream><level> <instance> <message>` and a line feed. */
export function encodeLine(seq: number, entry: Entry): string {
  return `${seq} ${entry.at} ${streamCode[entry.stream]}${levelCode[entry.level]} ${entry.instance} ${entry.message}\n`;
}

/** Decodes a stored line. Returns `undefined` for a line that a crash left half written. */
export function decodeLine(text: string): StoredLine | undefined {
  const seqEnd = text.indexOf(' ');
  const atEnd = text.indexOf(' ', seqEnd + 1);
  const instanceEnd = text.indexOf(' ', atEnd + 4);
  if (seqEnd <= 0 || atEnd === -1 || instanceEnd === -1) return undefined;
  const seq = Number(text.slice(0, seqEnd));
  const at = Number(text.slice(seqEnd + 1, atEnd));
  const stream = streams[text[atEnd + 1] as keyof typeof streams] as StoredLine['stream'] | undefined; // any character
  const level = levels[text[atEnd + 2] as keyof typeof levels] as StoredLine['level'] | undefined; // any character
  if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(at) || stream === undefined || level === undefined)
    return undefined;
  return { seq, at, stream, level, instance: text.slice(atEnd + 4, instanceEnd), message: text.slice(instanceEnd + 1) };
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
