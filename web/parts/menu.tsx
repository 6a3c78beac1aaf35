import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Icon } from './icon.tsx';
import type { IconName } from './icon.tsx';
import { hide, placeBeside, show } from './popover.ts';

export interface MenuItem {
  readonly label: string;
  /** A second line in small. */
  readonly note?: string | undefined;
  /** Why it cannot be chosen now; it is shown in place of the note. */
  readonly why?: string | undefined;
  readonly isDanger?: boolean | undefined;
  /** The key that does the same. */
  readonly hint?: string | undefined;
  readonly isChecked?: boolean | undefined;
  readonly href?: string | undefined;
  readonly onSelect?: (() => void) | undefined;
}

export type MenuEntry = MenuItem | 'line' | { readonly title: string };

interface MenuProps {
  readonly label: string;
  readonly entries: readonly MenuEntry[];
  readonly icon?: IconName | undefined;
  /** The word on the button; without it, the button has the icon alone. */
  readonly children?: ComponentChildren;
  readonly tone?: 'primary' | 'plain' | undefined;
}

const isItem = (entry: MenuEntry): entry is MenuItem => entry !== 'line' && 'label' in entry;

/** A button that opens a list of verbs. Arrows, Home, End and the first letter move in it; Escape closes it. */
export function Menu({ label, entries, icon, children, tone }: MenuProps): VNode {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const itemsOf = (): HTMLElement[] => [...(list.current?.querySelectorAll<HTMLElement>('[role^=menuitem]') ?? [])];
  useEffect(() => {
    if (!isOpen || list.current === null || button.current === null) return;
    show(list.current);
    placeBeside(list.current, button.current, 'end');
    itemsOf()[0]?.focus();
  }, [isOpen]);
  const close = (): void => {
    if (list.current !== null) hide(list.current);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const items = itemsOf();
    const at = items.findIndex((item) => item === document.activeElement);
    const to = targetOf(event.key, at, items);
    if (event.key === 'Tab') close();
    else if (to !== undefined) {
      event.preventDefault();
      items[(to + items.length) % items.length]?.focus();
    }
  };
  return (
    <span class="menu-box">
      <button
        ref={button}
        type="button"
        class={`button${tone === undefined ? '' : ` button-${tone}`}${children === undefined ? ' button-icon' : ''}`}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        aria-label={children === undefined ? label : undefined}
        onClick={() => setOpen(!isOpen)}
        onKeyDown={(event) => {
          if (event.key !== 'ArrowDown') return;
          event.preventDefault();
          setOpen(true);
        }}
      >
        {icon !== undefined && <Icon name={icon} />}
        {children}
        {children !== undefined && <Icon name="chevron-down" />}
      </button>
      <div
        ref={list}
        id={id}
        class="popover menu"
        role="menu"
        aria-label={label}
        popover="auto"
        onKeyDown={onKeyDown}
        onToggle={(event) => setOpen(event.newState === 'open')}
      >
        {isOpen && entries.map((entry, at) => <Entry key={at} entry={entry} close={close} />)}
      </div>
    </span>
  );
}

function targetOf(key: string, at: number, items: readonly HTMLElement[]): number | undefined {
  if (key === 'ArrowDown') return at + 1;
  if (key === 'ArrowUp') return at - 1;
  if (key === 'Home') return 0;
  if (key === 'End') return items.length - 1;
  if (key.length !== 1 || key === ' ') return undefined;
  const order = items.map((_, by) => (at + 1 + by) % items.length);
  return order.find((one) => items[one]?.innerText.toLowerCase().startsWith(key.toLowerCase()));
}

function Entry({ entry, close }: { readonly entry: MenuEntry; readonly close: () => void }): VNode {
  if (!isItem(entry))
    return entry === 'line' ? (
      <hr class="menu-line" />
    ) : (
      <div class="menu-title" role="presentation">
        {entry.title}
      </div>
    );
  const { label, note, why, isDanger = false, hint, isChecked, href, onSelect } = entry;
  const content = (
    <>
      <span class="menu-label">
        <span>{label}</span>
        {(why ?? note) !== undefined && <span class="menu-note">{why ?? note}</span>}
      </span>
      {isChecked === true && <span aria-hidden="true">✓</span>}
      {hint !== undefined && <kbd class="menu-key">{hint}</kbd>}
    </>
  );
  const shared = {
    class: `menu-item${isDanger ? ' menu-item-danger' : ''}`,
    tabIndex: -1,
    'aria-disabled': why === undefined ? undefined : ('true' as const),
  };
  if (href !== undefined && why === undefined)
    return (
      <a {...shared} role="menuitem" href={href} onClick={close}>
        {content}
      </a>
    );
  return (
    <button
      {...shared}
      type="button"
      role={isChecked === undefined ? 'menuitem' : 'menuitemradio'}
      aria-checked={isChecked}
      onClick={() => {
        if (why !== undefined) return;
        close();
        onSelect?.();
      }}
    >
      {content}
    </button>
  );
}
