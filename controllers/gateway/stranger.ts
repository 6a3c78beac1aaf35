import type { Clock } from '../../time/clock.ts';
import { isUnavailable } from '../../store/errors.ts';
import { parseConnections, putConnections, withRefusal } from '../../store/connections.ts';
import { keys } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';

/** Why an agent is refused that knows none of the keys of the control plane, and what to do. */
export const unknownKeyWords =
  'The agent knows a key of the control plane that the store does not have, as after a restore from before that key: ' +
  'run on its machine what `setpoint join SERVER` prints';

/**
 * Records with the server that its agent is refused since it knows none of the keys of the control plane, once. Without
 * effect if the server was never connected, or something else is recorded meanwhile: the agent comes again.
 */
export async function recordStranger(
  { store, clock }: { store: Store; clock: Clock },
  { tenant, server }: { tenant: string; server: string },
): Promise<void> {
  const key = keys.connections(tenant, server);
  try {
    const entry = await store.get(key);
    const record = parseConnections(entry);
    if (entry === undefined || record === undefined) return;
    const refused = withRefusal(record, unknownKeyWords, clock.now());
    if (refused === record) return;
    const guard = { key, is: 'at', revision: entry.modRevision } as const;
    await store.txn({ if: [guard], then: [putConnections(tenant, server, refused)] });
  } catch (error) {
    if (!isUnavailable(error)) throw error; // the store is away: the refusal is not recorded
  }
}
