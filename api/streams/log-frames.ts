import type { LogLine } from '../../agent-protocol/logs.ts';

/** The object whose lines a stream carries. */
export interface LogSource {
  kind: 'application' | 'database' | 'deployment' | 'function' | 'run';
  id: string;
  name: string;
}

/** Longest line that is sent whole, in UTF-16 code units. */
const maxLineLength = 16 * 1024;

/** The frame of one line. A merged stream has cursors of its own. */
export function logFrame(line: LogLine, source: LogSource, form: 'resumable' | 'merged'): object {
  return {
    type: 'log',
    message: displayable(line.message),
    timestamp: line.timestamp,
    stream: line.stream,
    level: line.level,
    seq: line.seq,
    ...(form === 'resumable' && { cursor: String(line.seq) }),
    source: { ...source, instance_id: line.instance_id },
  };
}

/** Characters that force right-to-left text. */
const turning = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Makes a line safe for a terminal, as any workload may have written it. Removes what would move the cursor, change the
 * title or reorder text; colours stay.
 */
export function displayable(message: string): string {
  const short = message.length > maxLineLength ? `${message.slice(0, maxLineLength)}…` : message;
  return short.replaceAll(turning, '').replaceAll(/\p{Cc}(\[[0-9;]*m)?/gu, (found, colour: string | undefined) => {
    const [control] = found;
    const isKept = control === '\t' || control === '\n' || (control === '\u001b' && colour !== undefined);
    return isKept ? found : (colour ?? '');
  });
}
