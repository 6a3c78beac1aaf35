import { effect, signal } from '@preact/signals';

/** How the reader wants the console shown; kept per tab. */
export interface Display {
  readonly theme: 'system' | 'light' | 'dark';
  readonly density: 'normal' | 'compact';
  /** Whether single keys do something outside fields. */
  readonly keys: boolean;
}

const key = 'setpoint.display';
const usual: Display = { theme: 'system', density: 'normal', keys: true };

function stored(): Display {
  const text = sessionStorage.getItem(key);
  return text === null ? usual : { ...usual, ...(JSON.parse(text) as Partial<Display>) }; // `setDisplay` wrote it
}

export const display = signal<Display>(stored());

export function setDisplay(change: Partial<Display>): void {
  display.value = { ...display.peek(), ...change };
  sessionStorage.setItem(key, JSON.stringify(display.peek()));
}

/** Shows the page by the settings, now and after each change. */
export function followDisplay(root: HTMLElement): void {
  effect(() => {
    const { theme, density } = display.value;
    if (theme === 'system') delete root.dataset['theme'];
    else root.dataset['theme'] = theme;
    root.dataset['density'] = density;
  });
}
