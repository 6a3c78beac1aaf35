import type { LogLine } from '../../agent-protocol/logs.ts';

/** The streams of lines about the making of images. A failed build writes why it failed to `system`. */
export const keptStreams: ReadonlySet<LogLine['stream']> = new Set(['build', 'system']);
