import type { VNode } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { ControlProps } from './field.tsx';
import type { Option } from './inputs.tsx';
import { hide, placeBeside, show } from './popover.ts';

interface ComboboxProps {
  readonly control: ControlProps;
  readonly options: readonly Option[];
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
  /** Asks for options that match a text; without it, those given are searched here. */
  readonly onSearch?: ((text: string) => void) | undefined;
  readonly placeholder?: string | undefined;
  readonly empty?: string | undefined;
}

const mostShown = 100;

/** One of a list, found by typing. Arrows move, Enter chooses, Escape closes and leaves what was chosen. */
export function Combobox(props: ComboboxProps): VNode {
  const { control, options, value, onChange, onSearch, placeholder, empty = 'Nothing matches' } = props;
  const chosen = options.find((option) => option.value === value);
  const [text, setText] = useState<string>();
  const [active, setActive] = useState(0);
  const listId = useId();
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const isOpen = text !== undefined;
  const needle = (text ?? '').trim().toLowerCase();
  const found = onSearch !== undefined || needle === '' ? options : options.filter((option) => matches(option, needle));
  const shown = found.slice(0, mostShown);
  useEffect(() => {
    if (list.current === null || input.current === null) return;
    if (isOpen) {
      show(list.current);
      list.current.style.minWidth = `${input.current.offsetWidth}px`;
      placeBeside(list.current, input.current, 'start');
    } else hide(list.current);
  }, [isOpen, shown.length]);
  useEffect(() => {
    list.current?.querySelector('[data-active=true]')?.scrollIntoView({ block: 'nearest' });
  }, [active]);
  const open = (next: string): void => {
    setText(next);
    setActive(0);
    onSearch?.(next);
  };
  const choose = (option: Option | undefined): void => {
    if (option !== undefined) onChange(option.value);
    setText(undefined);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      if (!isOpen) open('');
      else if (shown.length > 0)
        setActive((active + (event.key === 'ArrowDown' ? 1 : -1) + shown.length) % shown.length);
    } else if (event.key === 'Enter' && isOpen) {
      event.preventDefault();
      choose(shown[active]);
    } else if (event.key === 'Escape' && isOpen) {
      event.preventDefault();
      event.stopPropagation();
      setText(undefined);
    }
  };
  return (
    <div class="combobox">
      <input
        {...control}
        ref={input}
        class="input"
        role="combobox"
        aria-expanded={isOpen}
        aria-controls={listId}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && shown.length > 0 ? `${listId}-${active}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={text ?? chosen?.label ?? ''}
        onInput={(event) => open(event.currentTarget.value)}
        onClick={() => {
          if (!isOpen) open('');
        }}
        onKeyDown={onKeyDown}
        onBlur={() => {
          if (text === '' && value !== undefined && control.required !== true) onChange(undefined);
          setText(undefined);
        }}
      />
      <div ref={list} id={listId} class="popover menu" role="listbox" aria-label="Choices" popover="manual">
        {isOpen &&
          shown.map((option, at) => (
            <div
              key={option.value}
              id={`${listId}-${at}`}
              class="menu-item"
              role="option"
              aria-selected={option.value === value}
              data-active={at === active}
              onMouseDown={(event) => {
                event.preventDefault();
                choose(option);
              }}
            >
              <span class="menu-label">
                {option.label}
                {option.note !== undefined && <span class="menu-note">{option.note}</span>}
              </span>
            </div>
          ))}
        {isOpen && shown.length === 0 && (
          <div class="combobox-empty" role="option" aria-selected="false" aria-disabled="true">
            {empty}
          </div>
        )}
      </div>
    </div>
  );
}

function matches({ label, note = '' }: Option, needle: string): boolean {
  return `${label} ${note}`.toLowerCase().includes(needle);
}
