import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import type { TerminalLink } from './terminal-link.ts';

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
  whileOpening(() => terminal.open(box), sheets);
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
 * Makes elements as a document does. The policy of the page forbids `<style>` elements: in place of each one it gives a
 * hidden element whose text fills a sheet that the document adopts.
 */
function creator(real: Document, sheets: CSSStyleSheet[]): (name: string) => HTMLElement {
  const create = Document.prototype.createElement.bind(real);
  return (name) => {
    if (name !== 'style') return create(name);
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    real.adoptedStyleSheets = [...real.adoptedStyleSheets, sheet];
    const element = create('span');
    element.hidden = true;
    Object.defineProperty(element, 'textContent', {
      set: (text: string) => {
        sheet.replaceSync(text);
      },
    });
    return element;
  };
}

/** The scrollbar of the terminal takes the document of the window, whatever document the terminal was given. */
function whileOpening(open: () => void, sheets: CSSStyleSheet[]): void {
  Object.defineProperty(document, 'createElement', { configurable: true, value: creator(document, sheets) });
  try {
    open();
  } finally {
    Reflect.deleteProperty(document, 'createElement');
  }
}

/** The document as the terminal sees it, also after it was opened. */
function withAdoptedStyles(real: Document, sheets: CSSStyleSheet[]): Document {
  const create = creator(real, sheets);
  return new Proxy(real, {
    get(target, name) {
      if (name === 'createElement') return create;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
