import { z } from 'zod';
import { keys } from './keys.ts';
import type { KeyMeaning } from './keys.ts';
import type { LiveAgent } from './mirror.ts';
import { Ordered, compareText } from './ordered.ts';
import type { Revision } from './revision.ts';

/** A key that is no object, with its value and the revision that wrote it. */
export interface KeyRecord {
  key: string;
  value: string;
  revision: Revision;
}

const Agent = z.object({
  replica: z.string(),
  session: z.string(),
  machineId: z.string(),
  bootId: z.string().exactOptional(),
  agentVersion: z.string().exactOptional(),
  runtime: z.string().exactOptional(),
  runtimeVersion: z.string().exactOptional(),
  capabilities: z.array(z.string()).exactOptional(),
  since: z.string().exactOptional(),
  forbids: z.array(z.string()).exactOptional(),
  engineTrouble: z.object({ reason: z.string(), message: z.string() }).exactOptional(),
  engineWarnings: z.array(z.object({ reason: z.string(), message: z.string() })).exactOptional(),
  updateFailure: z
    .object({ version: z.string(), requestedAt: z.string(), reason: z.string(), message: z.string() })
    .exactOptional(),
  conflict: z.boolean().exactOptional(),
});

/** Keys that are no objects, as the mirror keeps them: by name, in order, and those of live agents parsed. */
export class KeyTable {
  readonly #records = new Map<string, KeyRecord>();
  readonly #inOrder = new Ordered<KeyRecord>((a, b) => compareText(a.key, b.key));
  readonly #agents = new Map<string, LiveAgent>();

  get(key: string): KeyRecord | undefined {
    return this.#records.get(key);
  }

  names(): Iterable<string> {
    return this.#records.keys();
  }

  under(prefix: string): KeyRecord[] {
    return this.#inOrder.run(
      (record) => record.key < prefix,
      (record) => record.key.startsWith(prefix),
    );
  }

  agent(tenant: string, server: string): LiveAgent | undefined {
    return this.#agents.get(keys.agent(tenant, server));
  }

  /** Sets or removes a key. @throws Error for a live agent's record that cannot be read; its key is kept */
  set(key: string, value: string | undefined, revision: Revision, meaning: KeyMeaning): void {
    const after = value === undefined ? undefined : Object.freeze({ key, value, revision });
    this.#inOrder.replace(this.#records.get(key), after);
    if (after) this.#records.set(key, after);
    else this.#records.delete(key);
    if (meaning.area !== 'agent') return;
    this.#agents.delete(key);
    if (after) this.#agents.set(key, Object.freeze({ ...Agent.parse(JSON.parse(after.value)), epoch: revision }));
  }
}
