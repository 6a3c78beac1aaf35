import { setTimeout as delay } from 'node:timers/promises';
import { ApiObject } from './client.ts';
import type { Client } from './client.ts';
import { displayable } from '../api/streams/log-frames.ts';
import { resumed } from './resume.ts';

/** What takes longer, in milliseconds, is told while it goes on. */
const quietMs = 3000;

/**
 * Returns the answer to a change of an application. If it takes long, prints to standard error why the application, or one
 * of its instances that another one covers, is not ready yet, each time that changes. Never throws by itself: the change
 * goes on where nothing can be followed.
 */
export async function whileComing<T>(client: Client, app: ApiObject, answer: Promise<T>): Promise<T> {
  const answered = new AbortController();
  const { signal } = answered;
  const told = delay(quietMs, undefined, { signal })
    .then(() => tellWhy(client, app, signal))
    .catch(() => undefined);
  try {
    return await answer;
  } finally {
    answered.abort();
    await told;
  }
}

/** Reads the application once the stream is open, so that no change is missed between them. */
async function tellWhy(client: Client, app: ApiObject, over: AbortSignal): Promise<void> {
  let last: string | undefined;
  for await (const frame of resumed(client, '/ws/watch', { kinds: 'application' }, {}, over)) {
    if (frame['id'] !== undefined && frame['id'] !== app.id) continue;
    const changed = ApiObject.safeParse(frame['object']);
    const now = changed.success ? changed.data : await client.object('GET', `/api/v1/applications/${app.id}`);
    const ready = now.conditions?.find(({ type }) => type === 'Ready');
    if (over.aborted || ready === undefined || isComplete(ready) || ready.message === last) continue;
    last = ready.message;
    console.error(displayable(`… ${last}`));
  }
}

/** Whether the application is ready by its own instances, without one that serves in place of another. */
function isComplete({ status, reason }: { status: string; reason: string }): boolean {
  return status === 'true' && reason !== 'Covered';
}
