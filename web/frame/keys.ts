import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { display } from './settings.ts';

interface KeyActions {
  readonly palette: () => void;
  readonly keys: () => void;
  readonly go: (path: readonly string[]) => void;
}

/** Places that `g` and a letter lead to. */
export const places: Readonly<Record<string, { readonly path: string; readonly word: string }>> = {
  p: { path: 'projects', word: 'Projects' },
  s: { path: 'servers', word: 'Servers' },
  l: { path: 'logs', word: 'Logs' },
  d: { path: 'databases', word: 'Databases' },
  f: { path: 'functions', word: 'Functions' },
  b: { path: 'backups', word: 'Backups' },
  t: { path: 'templates', word: 'Templates' },
};
const togetherMs = 1500;

/** Whether a key that was pressed belongs to a field, and so to nothing else. */
function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName) ||
      target.closest('.xterm') !== null)
  );
}

/** True while a dialog is open, which has the keys for itself. */
function isCovered(): boolean {
  return document.querySelector('dialog[open]') !== null;
}

type PageKeys = Readonly<Record<string, (() => void) | undefined>>;

/** Keys of the page that is shown, by its parts: no two have the same one. */
const ofPage = new Set<{ readonly current: PageKeys }>();

/**
 * Keys that work on every page, and those of the page: Ctrl+K always, single ones unless they are switched off. One
 * listener has them all, so that the key after `g` is never one of the page.
 */
export function useKeys(actions: KeyActions): void {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    let leadAt = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent): void => {
      const { palette, keys, go } = latest.current;
      // a part of the page, such as a log, has taken it
      if (event.defaultPrevented) return;
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        if (!isCovered()) palette();
        return;
      }
      if (!display.peek().keys || event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyping(event.target) || isCovered()) return;
      const isSecond = event.timeStamp - leadAt < togetherMs;
      leadAt = event.key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY;
      const place = isSecond ? places[event.key] : undefined;
      const act = isSecond ? undefined : actOf(event.key);
      if (place !== undefined) go([place.path]);
      else if (event.key === '/') palette();
      else if (event.key === '?') keys();
      else if (act !== undefined) act();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

/** What a key does on the page that is shown; `undefined`: nothing. */
function actOf(key: string): (() => void) | undefined {
  for (const { current } of ofPage) if (current[key] !== undefined) return current[key];
  return undefined;
}

/** Single keys of one page; `keys`: what each does. */
export function usePageKeys(keys: PageKeys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useLayoutEffect(() => {
    ofPage.add(latest);
    return () => {
      ofPage.delete(latest);
    };
  }, []);
}
