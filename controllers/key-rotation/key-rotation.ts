import { z } from 'zod';
import { wait } from '../../time/clock.ts';
import { afterUncompared, parseKey } from '../../store/keys.ts';
import type { KeyMeaning } from '../../store/keys.ts';
import { Pages } from '../../store/pages.ts';
import type { Resealer, Sealer } from '../../store/seal.ts';
import type { Entry } from '../../store/store.ts';
import { limits } from '../runtime/limits.ts';
import type { Term } from '../runtime/leader.ts';
import type { Background, BackgroundDeps } from '../runtime/manager.ts';
import { withoutInlinedEnv } from './inlined-env.ts';
import { withSealedBuildArgs } from './plain-build-args.ts';

/** What one pass over all records did. */
export interface RotationPass {
  resealed: number;
  /** Records that another writer changed meanwhile: the next pass takes them. */
  contended: number;
  /** Records with a value that does not open. */
  unreadable: number;
}

/**
 * Seals with the current key what an older key sealed, and what an earlier release did not seal. The records change in
 * place: no generation grows, so nothing restarts. It is paced, so that users do not notice. Another writer of a record
 * wins, and the next pass takes the record again.
 */
export function keyRotation(resealer: Pick<Resealer, 'resealRecord'> & Sealer): Background {
  return {
    name: 'key-rotation',
    async run(term, deps) {
      for (;;) {
        try {
          const { resealed, contended, unreadable } = await rotate(resealer, term, deps);
          if (resealed + contended + unreadable > 0)
            deps.log.info({ resealed, contended, unreadable }, 'Secrets were sealed with the current key');
        } catch (error) {
          if (term.signal.aborted) return;
          deps.log.warn({ err: error }, 'Cannot seal all secrets with the current key: the next pass tries again');
        }
        await wait(deps.clock, limits.rotation.everyMs, term.signal);
      }
    },
  };
}

/** One pass over everything that may hold a sealed value. */
export async function rotate(
  resealer: Pick<Resealer, 'resealRecord'> & Sealer,
  term: Term,
  deps: Pick<BackgroundDeps, 'store' | 'clock' | 'log' | 'metrics'>,
): Promise<RotationPass> {
  const { store, clock, log, metrics } = deps;
  const pass: RotationPass = { resealed: 0, contended: 0, unreadable: 0 };
  const options = { most: limits.rotation.pageSize, after: afterUncompared, isPinned: false };
  term.signal.throwIfAborted();
  for await (const page of new Pages(store, options)) {
    term.signal.throwIfAborted();
    for (const entry of page.entries) {
      const value = renewed(entry);
      if (value === undefined) continue;
      const result = await store.txn({
        if: [term.fence, { key: entry.key, is: 'at', revision: entry.modRevision }],
        then: [{ put: entry.key, value }],
      });
      if (result.committed) {
        pass.resealed++;
        metrics.resealed.inc();
      } else pass.contended++;
      await wait(clock, limits.rotation.paceMs, term.signal);
    }
  }
  return pass;

  function renewed({ key, value, modRevision }: Entry): string | undefined {
    const meaning = parseKey(key);
    const tenant = meaning && sealedFor(meaning);
    if (meaning === undefined || tenant === undefined) return undefined;
    try {
      const sealed = withSealedBuildArgs(meaning, value, resealer);
      // Most records hold no secret, which shows without parsing them.
      if (!value.includes('"$sealed"')) return sealed;
      const resealed = resealer.resealRecord(tenant, sealed ?? value) ?? sealed;
      if (resealed === undefined) return undefined;
      return meaning.area === 'idempotency' ? atRevision(resealed, modRevision) : withoutInlinedEnv(meaning, resealed);
    } catch (error) {
      pass.unreadable++;
      log.error(
        { ...meaning, err: error },
        'A secret cannot be decrypted with any key of the key file: restore the key file, or set the secret again',
      );
      return undefined;
    }
  }
}

/** A kept answer with the revision of the transaction that it was recorded in, which the new write of it hides. */
function atRevision(record: string, revision: number): string {
  const parsed = z.looseObject({ revision: z.string().optional() }).parse(JSON.parse(record));
  return JSON.stringify({ ...parsed, revision: parsed.revision ?? String(revision) });
}

/**
 * The tenant that the secrets of a key are bound to: its own, or for keys of the installation the name under which they
 * were sealed. `undefined` for a key that holds no secrets.
 */
function sealedFor(meaning: KeyMeaning): string | undefined {
  switch (meaning.area) {
    case 'desired':
    case 'observed':
    case 'idempotency':
      return meaning.tenant;
    case 'meta':
      return Object.hasOwn(installation, meaning.name) ? installation[meaning.name] : undefined;
    default:
      return undefined;
  }
}

/** Keys of the installation, and the name under which they were sealed in place of a tenant. */
const installation: Readonly<Record<string, string>> = {
  'control-keys': '*',
  'relay-key': '',
  'seal-canary': '',
  'short-secrets': '*',
  'signing-keys': '*',
};
