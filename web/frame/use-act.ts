import { useState } from 'preact/hooks';
import { refusalOf } from '../parts/refusal.ts';
import type { Refusal } from '../parts/refusal.ts';

export interface Act {
  readonly busy: boolean;
  readonly error: Refusal | undefined;
  /** Does something; resolves to whether it was done. A second call while one is under way is not made. */
  readonly run: (act: () => Promise<unknown>) => Promise<boolean>;
  readonly clear: () => void;
}

/** A request by a click: whether it is under way, and what it was refused with. */
export function useAct(): Act {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Refusal>();
  return {
    busy,
    error,
    clear: () => setError(undefined),
    run: async (act) => {
      if (busy) return false;
      setBusy(true);
      setError(undefined);
      try {
        await act();
        return true;
      } catch (failure) {
        setError(refusalOf(failure));
        return false;
      } finally {
        setBusy(false);
      }
    },
  };
}
