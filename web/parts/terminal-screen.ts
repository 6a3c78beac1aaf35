import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import type { TerminalLink } from './terminal.tsx';

export interface TerminalHandle {
  close: () => void;
}

/** Opens a terminal in a box. It is as large as the box, and tells the session when that changes. */
export function openTerminal(box: HTMLElement, link: TerminalLink, label: string): TerminalHandle {
  const sheets: CSSStyleSheet[] = [];
  const terminal = new Terminal({
    documentOverride: withAdoptedStyles(document, sheets),
    fontFamily: 'ui-monospace, monospace',
    fontSize: 13,
    cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
    screenReaderMode: true,
    scrollback: 5000,
    theme: { background: '#0c0f14', foreground: '#e7ebf0', cursor: '#8cc4ff', selectionBackground: '#6db3ff55' },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(box);
  terminal.textarea?.setAttribute('aria-label', label);
  leaveByEscapeAndTab(terminal);
  const end = link.subscribe((output) => terminal.write(output));
  terminal.onData((text) => link.send(text));
  terminal.onResize(({ cols, rows }) => link.resize(cols, rows));
  const watcher = new ResizeObserver(() => {
    if (box.clientWidth > 0) fit.fit();
  });
  watcher.observe(box);
  fit.fit();
  link.resize(terminal.cols, terminal.rows);
  terminal.focus();
  return {
    close() {
      watcher.disconnect();
      end();
      terminal.dispose();
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet));
    },
  };
}

/** A Tab right after Escape moves the focus on, as everywhere else on the page. */
function leaveByEscapeAndTab(terminal: Terminal): void {
  let wasEscape = false;
  terminal.attachCustomKeyEventHandler(({ type, key }) => {
    if (type !== 'keydown') return true;
    const leaves = wasEscape && key === 'Tab';
    wasEscape = key === 'Escape';
    return !leaves;
  });
}

/**
 * The document as the terminal sees it. The policy of the page forbids `<style>` elements: in place of each one stands a
 * hidden element whose text fills a sheet that the document adopts.
 */
function withAdoptedStyles(real: Document, sheets: CSSStyleSheet[]): Document {
  const create = (name: string): HTMLElement => {
    if (name !== 'style') return real.createElement(name);
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    real.adoptedStyleSheets = [...real.adoptedStyleSheets, sheet];
    const element = real.createElement('span');
    element.hidden = true;
    Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) });
    return element;
  };
  return new Proxy(real, {
    get(target, name) {
      if (name === 'createElement') return create;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
