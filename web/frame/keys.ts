import { useEffect } from 'preact/hooks';
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

/** Keys that work on every page: Ctrl+K always, single ones unless they are switched off. */
export function useKeys({ palette, keys, go }: KeyActions): void {
  useEffect(() => {
    let leadAt = 0;
    const onKey = (event: KeyboardEvent): void => {
      // a part of the page, such as a log, has taken it
      if (event.defaultPrevented) return;
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        if (!isCovered()) palette();
        return;
      }
      if (!display.peek().keys || event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyping(event.target) || isCovered()) return;
      const place = event.timeStamp - leadAt < togetherMs ? places[event.key] : undefined;
      leadAt = event.key === 'g' ? event.timeStamp : 0;
      if (place !== undefined) go([place.path]);
      else if (event.key === '/') palette();
      else if (event.key === '?') keys();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });
}

/** Single keys of one page; `keys`: what each does. */
export function usePageKeys(keys: Readonly<Record<string, (() => void) | undefined>>): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || !display.peek().keys || event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyping(event.target) || isCovered()) return;
      const act = keys[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });
}
