import type { LogLine } from '../../agent-protocol/logs.ts';

/** Whose lines a stream carries. */
export interface LogSource {
  kind: 'application' | 'deployment';
  id: string;
  name: string;
}

/** Longest line that is sent whole. */
const maxLineLength = 16 * 1024;

/** The frame of one line. */
export function logFrame(line: LogLine, source: LogSource): object {
  return {
    type: 'log',
    message: displayable(line.message),
    timestamp: line.timestamp,
    stream: line.stream,
    level: line.level,
    seq: line.seq,
    cursor: String(line.seq),
    source: { ...source, instance_id: line.instance_id },
  };
}

/** What makes text run from right to left where it does not by itself. */
const turning = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * A line may come from anybody: what would move a terminal's cursor, rewrite its title or show a text in another order
 * is taken out; colours stay.
 */
export function displayable(message: string): string {
  const short = message.length > maxLineLength ? `${message.slice(0, maxLineLength)}…` : message;
  return short.replaceAll(turning, '').replaceAll(/\p{Cc}(\[[0-9;]*m)?/gu, (found, colour: string | undefined) => {
    const [control] = found;
    const isKept = control === '\t' || control === '\n' || (control === '\u001b' && colour !== undefined);
    return isKept ? found : (colour ?? '');
  });
}
