import { join } from 'node:path';
import type { Logger } from 'pino';
import { agentSource } from '../agent-protocol/logs.ts';
import { DesiredSet } from './desired/desired.ts';
import { deriveKey } from './disk/journal.ts';
import { Ledger } from './engine/ledger.ts';
import { ExecutionLog } from './functions/execution-log.ts';
import type { Identity } from './identity.ts';
import { ImportFolder } from './imports/import-folder.ts';
import { Uploads } from './imports/uploads.ts';
import { LogStore } from './logs/log-store.ts';
import type { OwnLines } from './logs/own-lines.ts';
import { MetricStore } from './metrics/metric-store.ts';
import type { AgentOptions } from './options.ts';
import { InstanceFiles } from './service/instance-files.ts';
import { Results } from './tasks/results.ts';
import { MadeVolumes } from './volumes/made-volumes.ts';

/** What the agent keeps on disk. */
export interface Files {
  desired: DesiredSet;
  ledger: Ledger;
  results: Results;
  made: MadeVolumes;
  logs: LogStore;
  metrics: MetricStore;
  executions: ExecutionLog;
  /** Files that instances mount. */
  instances: InstanceFiles;
  importFolder: ImportFolder;
  uploads: Uploads;
}

const segmentBytes = 8 * 1024 * 1024;
/** Used until the control plane has sent the retention of the server once: the longest that it can be. */
const retentionDays = 365;

/** Opens what the agent keeps on disk; `stack` closes it. @throws Error if a file cannot be read or written */
export async function openFiles(
  { dataDir, logBytes, disk, imports, clock, log, storeLog = log, ownLines }: AgentOptions,
  identity: Identity,
  stack: AsyncDisposableStack,
): Promise<Files> {
  // The key of the files comes from a signature that is never sent: without the identity the files cannot be read.
  const secret = Buffer.from(identity.sign(Buffer.from('setpoint agent at rest')), 'base64url');
  const file = (name: string): [string, Buffer] => [join(dataDir, name), deriveKey(secret, name)];
  const folder = join(dataDir, 'logs');
  const logs = stack.use(
    await LogStore.open({ folder, maxBytes: logBytes, segmentBytes, retentionDays, clock, log: storeLog }),
  );
  if (ownLines !== undefined) stack.defer(keepOwnLines(ownLines, logs, storeLog));
  return {
    desired: stack.use(await DesiredSet.open(...file('desired'))),
    ledger: stack.use(await Ledger.open(...file('ledger'))),
    results: stack.use(await Results.open(...file('results'))),
    made: stack.use(await MadeVolumes.open(...file('volumes'))),
    metrics: stack.use(await MetricStore.open({ folder: join(dataDir, 'metrics'), clock, log })),
    executions: stack.use(new ExecutionLog(join(dataDir, 'functions', 'executions.db'), { clock, log })),
    instances: new InstanceFiles(join(dataDir, 'files')),
    importFolder: await ImportFolder.open(imports?.folder ?? join(dataDir, 'imports')),
    uploads: await Uploads.open({ folder: join(dataDir, 'uploads'), disk, clock }),
    logs,
  };
}

/** Keeps the agent's own lines in the log store until the returned function is called. */
function keepOwnLines(ownLines: OwnLines, logs: LogStore, storeLog: Logger): () => void {
  const { signal } = new AbortController();
  return ownLines.passTo((entries) => {
    logs.append(agentSource, entries, signal).catch((error: unknown) => {
      storeLog.error({ err: error }, 'Cannot keep lines of the agent in the log store: they are in its own log only');
    });
  });
}
