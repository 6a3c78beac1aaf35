import type { Guard } from './store.ts';
import type { Revision } from './revision.ts';

/** Whether a guard holds for a key that was last written at `modRevision`; `undefined`: the key is absent. */
export function guardHolds(guard: Guard, modRevision: Revision | undefined): boolean {
  switch (guard.is) {
    case 'absent':
      return modRevision === undefined;
    case 'present':
      return modRevision !== undefined;
    case 'at':
      return modRevision === guard.revision;
  }
}
