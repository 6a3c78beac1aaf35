import type { Stream } from './stream.ts';
import { terminal } from './terminal-stream.ts';
import { applicationLogs, deploymentLogs } from './log-streams.ts';
import { mergedLogs } from './merged-log-stream.ts';
import { serverMetrics } from './metrics-stream.ts';
import { serverLogs } from './server-log-stream.ts';
import { notifications } from './notification-stream.ts';
import { watch } from './watch-stream.ts';

export const streams: readonly Stream[] = [
  applicationLogs,
  deploymentLogs,
  mergedLogs,
  serverLogs,
  serverMetrics,
  notifications,
  watch,
  terminal,
];
