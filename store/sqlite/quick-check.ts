import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { z } from 'zod';

/** The program of the thread that looks into the file of a store: see `examineFile`. */
const { path } = z.object({ path: z.string() }).parse(workerData);
using db = new DatabaseSync(path, { readOnly: true });
const row = db.prepare('PRAGMA quick_check(1)').get();
const answer = String(row?.['quick_check']);
parentPort?.postMessage({ fault: answer === 'ok' ? 'none' : answer });
