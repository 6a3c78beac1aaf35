import { DatabaseSync } from 'node:sqlite';
import { until } from '../test/harness/until.ts';

/** After this time without a write, the store is at rest. */
const quietMs = 12_000;
const timeoutMs = 300_000;

/** Resolves when nothing was written for `quietMs`. */
export async function comeToRest(path: string): Promise<void> {
  let last = revisionOf(path);
  let since = performance.now();
  await until(
    'the store is at rest',
    async () => {
      const now = revisionOf(path);
      if (now !== last) since = performance.now();
      last = now;
      return performance.now() - since > quietMs;
    },
    { timeoutMs, everyMs: 500 },
  );
}

/** Reads the revision directly from the file, while another process uses it. */
export function revisionOf(path: string): number {
  const db = new DatabaseSync(path, { readOnly: true });
  const row = db.prepare("SELECT v FROM meta WHERE k = 'revision'").get();
  db.close();
  return Number(row?.['v']);
}
