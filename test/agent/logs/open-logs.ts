import { pino } from 'pino';
import type { LogStoreOptions } from '../../../agent/logs/log-store.ts';
import { LogStore } from '../../../agent/logs/log-store.ts';

/** A store whose segments are small, so that few lines fill several. */
export function openLogs(
  given: Pick<LogStoreOptions, 'folder' | 'clock'> & Partial<LogStoreOptions>,
): Promise<LogStore> {
  const log = pino({ level: 'silent' });
  return LogStore.open({ maxBytes: 1e9, segmentBytes: 4_000, retentionDays: 7, log, ...given });
}
