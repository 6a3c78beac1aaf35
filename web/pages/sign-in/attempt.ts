import { useEffect, useState } from 'preact/hooks';
import { messageOf, Refused } from '../../api.ts';

/** A request that a form sends: whether it is under way, what it failed with, and when it may be sent again. */
export interface Attempt {
  readonly isBusy: boolean;
  readonly error: string;
  /** Seconds until the server takes the next one; 0: now. */
  readonly wait: number;
  readonly say: (error: string) => void;
  /** Runs `act`; a refusal for which `handle` returns false is shown. */
  readonly run: (act: () => Promise<void>, handle?: (refusal: Refused) => boolean) => Promise<void>;
}

export function useAttempt(before = ''): Attempt {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(before);
  const [wait, setWait] = useState(0);
  useEffect(() => {
    if (wait <= 0) return;
    const timer = setTimeout(() => setWait(wait - 1), 1000);
    return () => clearTimeout(timer);
  }, [wait]);
  const run: Attempt['run'] = async (act, handle) => {
    setBusy(true);
    setError('');
    try {
      await act();
    } catch (failure) {
      if (failure instanceof Refused && failure.status === 429 && failure.retryAfter !== undefined)
        setWait(failure.retryAfter);
      if (!(failure instanceof Refused && handle?.(failure) === true)) setError(messageOf(failure));
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, error, wait, say: setError, run };
}
