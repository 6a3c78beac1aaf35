import { useEffect, useMemo, useState } from 'preact/hooks';
import { LogRing } from '../parts/log-ring.ts';
import type { LogLine, NewLine } from '../parts/log-ring.ts';
import { useConsole } from './context.ts';
import { followStream } from './stream.ts';
import type { Frame } from './stream.ts';

interface LineFrame extends Frame {
  readonly type: 'log';
  readonly message: string;
  readonly timestamp: string;
  readonly level: LogLine['level'];
  readonly seq: number;
  readonly source: { readonly id: string; readonly name: string; readonly instance_id: string };
}
interface GapFrame extends Frame {
  readonly type: 'gap';
  readonly dropped?: number;
}
type LogFrame = LineFrame | GapFrame | { readonly type: 'ready' | 'end' | 'ping' | 'status' };

export interface FollowedLog {
  readonly ring: LogRing;
  /** Why no lines come; `undefined` while they do. */
  readonly trouble: string | undefined;
  /** No further line will come. */
  readonly isEnded: boolean;
}

interface LogOptions {
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** How a line names where it comes from. */
  readonly sourceOf?: (source: LineFrame['source']) => string;
  /** Whether a line begins a part that can be folded. */
  readonly isStep?: (message: string) => boolean;
}

/** The lines of a stream as they arrive, and whether they still do. Another path or query begins anew. */
export function useLog({ path, query = {}, sourceOf = () => '', isStep = () => false }: LogOptions): FollowedLog {
  const { login } = useConsole();
  const about = JSON.stringify([path, query]);
  const ring = useMemo(() => new LogRing(), [about]);
  const [trouble, setTrouble] = useState<string>();
  const [isEnded, setEnded] = useState(false);
  useEffect(() => {
    setTrouble(undefined);
    setEnded(false);
    return followStream({
      login,
      path,
      query,
      onTrouble: setTrouble,
      onEnd: () => setEnded(true),
      onFrame: (frame) => {
        const it = frame as LogFrame; // the frames of a stream of logs
        if (it.type === 'log') ring.push([lineOf(it, sourceOf, isStep)]);
        else if (it.type === 'gap') ring.push([gapLine(it.dropped)]);
      },
    });
  }, [ring]);
  return { ring, trouble, isEnded };
}

function lineOf(
  { message, timestamp, level, seq, source }: LineFrame,
  sourceOf: NonNullable<LogOptions['sourceOf']>,
  isStep: NonNullable<LogOptions['isStep']>,
): NewLine {
  return {
    text: message,
    at: Date.parse(timestamp),
    level,
    source: sourceOf(source),
    sourceId: source.id,
    seq,
    mark: isStep(message) ? 'step' : 'line',
  };
}

function gapLine(dropped: number | undefined): LogLine {
  const count = dropped === undefined || dropped <= 1 ? 'Lines are' : `${dropped} lines are`;
  return { text: `${count} missing here`, at: Date.now(), level: 'warn', source: '', seq: -1, mark: 'gap' };
}
