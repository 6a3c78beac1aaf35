import { useEffect, useState } from 'preact/hooks';
import { Refused } from '../api.ts';
import { refusalOf } from '../parts/refusal.ts';
import type { Refusal } from '../parts/refusal.ts';

export interface Read<T> {
  /** The last answer; it stays while the next one is awaited. */
  readonly data: T | undefined;
  readonly error: Refusal | undefined;
  readonly again: () => void;
}

const retryMs = 2000;

/**
 * What a request answers; it is sent again whenever `about` changes. An answer that a later request has overtaken is dropped.
 * Without any answer it is sent again every two seconds: the connection shows that.
 */
export function useRead<T>(read: () => Promise<T>, about: readonly unknown[]): Read<T> {
  const [answer, setAnswer] = useState<{ data?: T; error?: Refusal }>({});
  const [attempt, setAttempt] = useState(0);
  const again = (): void => setAttempt((count) => count + 1);
  useEffect(() => {
    let isCurrent = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    read().then(
      (data) => {
        if (isCurrent) setAnswer({ data });
      },
      (failure: unknown) => {
        if (!isCurrent) return;
        if (failure instanceof Refused)
          setAnswer(({ data }) => ({ error: refusalOf(failure), ...(data !== undefined && { data }) }));
        else timer = setTimeout(again, retryMs);
      },
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [...about, attempt]);
  return { data: answer.data, error: answer.error, again };
}
