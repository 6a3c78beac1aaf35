import { useEffect, useState } from 'preact/hooks';

const tickMs = 1000;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** One timer for the whole page, while something on it counts. */
function onTick(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    for (const one of listeners) one();
  }, tickMs);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** A text that depends on the time of day. The component is drawn again only when the text has changed. */
export function useTicking(textAt: (now: number) => string, deps: readonly unknown[]): string {
  const [, setShown] = useState('');
  useEffect(() => onTick(() => setShown(textAt(Date.now()))), [...deps]);
  return textAt(Date.now());
}
