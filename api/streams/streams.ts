import type { Stream } from './stream.ts';
import { terminal } from './terminal-stream.ts';
import { applicationLogs, databaseLogs, deploymentLogs, runLogs } from './log-streams.ts';
import { mergedLogs } from './merged-log-stream.ts';
import { serverMetrics } from './metrics-stream.ts';
import { serverLogs } from './server-log-stream.ts';
import { notifications } from './notification-stream.ts';
import { applicationTraffic } from './traffic-stream.ts';
import { databaseTunnel } from './tunnel-stream.ts';
import { watch } from './watch-stream.ts';

export const streams: readonly Stream[] = [
  applicationLogs,
  databaseLogs,
  databaseTunnel,
  deploymentLogs,
  runLogs,
  mergedLogs,
  serverLogs,
  serverMetrics,
  applicationTraffic,
  notifications,
  watch,
  terminal,
];
