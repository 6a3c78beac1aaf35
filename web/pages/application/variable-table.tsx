import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Button, IconButton } from '../../parts/button.tsx';
import { isName } from './env-text.ts';
import type { Variables } from './env-text.ts';

interface VariableTableProps {
  readonly base: Variables;
  readonly draft: Variables;
  readonly isRevealed: boolean;
  readonly isMasked: boolean;
  readonly why: string | undefined;
  /** In place of a table without variables. */
  readonly empty: ComponentChildren;
  readonly onChange: (draft: Variables) => void;
}

const kinds = { text: { type: 'text' }, password: { type: 'password' } } as const;
/** Lines of a value that are shown at once. */
const mostRows = 8;
const reference = /\$\{[^}]+\}/;

/** Variables by name; what was changed, added or removed stays in its place until it is saved. */
export function VariableTable(props: VariableTableProps): VNode {
  const { base, draft, isRevealed, isMasked, why, empty, onChange } = props;
  const [filter, setFilter] = useState('');
  const names = [...new Set([...Object.keys(base), ...Object.keys(draft)])]
    .filter((name) => name.toLowerCase().includes(filter.toLowerCase()))
    .toSorted((a, b) => a.localeCompare(b));
  const remove = (name: string): void => onChange(without(draft, name));
  const count = Object.keys(draft).length;
  return (
    <div class="stack-tight">
      {count > 8 && (
        <input
          class="input filter-input"
          type="search"
          aria-label="Filter variables by name"
          placeholder={`Filter ${count} variables`}
          value={filter}
          onInput={({ currentTarget }) => setFilter(currentTarget.value)}
        />
      )}
      {names.length === 0 && filter === '' && empty}
      {names.length > 0 && (
        <ul class="variables" aria-label="Variables">
          {names.map((name) => (
            <Variable
              key={name}
              name={name}
              before={base[name]}
              value={draft[name]}
              isRevealed={isRevealed}
              isMasked={isMasked}
              why={why}
              onChange={(value) => onChange({ ...draft, [name]: value })}
              onRemove={() => remove(name)}
              onUndo={() =>
                onChange(base[name] === undefined ? without(draft, name) : { ...draft, [name]: base[name] })
              }
            />
          ))}
        </ul>
      )}
      {why === undefined && (
        <NewVariable draft={draft} onAdd={(name, value) => onChange({ ...draft, [name]: value })} />
      )}
    </div>
  );
}

interface VariableProps {
  readonly name: string;
  readonly before: string | undefined;
  /** `undefined`: it is to be removed. */
  readonly value: string | undefined;
  readonly isRevealed: boolean;
  readonly isMasked: boolean;
  readonly why: string | undefined;
  readonly onChange: (value: string) => void;
  readonly onRemove: () => void;
  readonly onUndo: () => void;
}

function Variable(props: VariableProps): VNode {
  const { name, before, value, isRevealed, isMasked, why, onChange, onRemove, onUndo } = props;
  const [isOpen, setOpen] = useState(false);
  const isReference = reference.test(value ?? '');
  const isShown = [isRevealed, isOpen, before === undefined, isReference].includes(true);
  const state = stateOf(before, value);
  return (
    <li class={`variable ${state === '' ? '' : 'variable-changed'}`}>
      <code class="variable-name">{name}</code>
      {value === undefined ? (
        <span class="quiet">goes when this is saved</span>
      ) : isMasked ? (
        <span class="quiet">••••••••</span>
      ) : (
        <ValueInput
          label={`Value of ${name}`}
          isShown={isShown}
          isReadOnly={why !== undefined}
          value={value}
          onChange={onChange}
        />
      )}
      <span class="variable-state small quiet">{state === '' && isReference ? 'reference' : state}</span>
      <span class="row">
        {!isMasked && value !== undefined && before !== undefined && !isReference && !isRevealed && (
          <IconButton
            icon={isOpen ? 'hide' : 'reveal'}
            label={isOpen ? `Hide the value of ${name}` : `Show the value of ${name}`}
            isSmall
            onClick={() => setOpen(!isOpen)}
          />
        )}
        {state !== '' && (
          <Button isSmall tone="plain" onClick={onUndo}>
            Undo
          </Button>
        )}
        {why === undefined && value !== undefined && state !== 'added' && (
          <IconButton icon="remove" label={`Remove ${name}`} isSmall onClick={onRemove} />
        )}
      </span>
    </li>
  );
}

interface ValueInputProps {
  readonly label: string;
  readonly isShown: boolean;
  readonly isReadOnly?: boolean;
  readonly placeholder?: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Of a value of one line: in a longer one, Enter is a line break. */
  readonly onEnter?: () => void;
}

/** A value in one line, and, once it has or is given a line break, in as many as it has: an input would take them out. */
function ValueInput(props: ValueInputProps): VNode {
  const { label, isShown, isReadOnly = false, placeholder, value, onChange, onEnter } = props;
  const box = useRef<HTMLTextAreaElement>(null);
  const isLong = useRef(false);
  const wasPasted = useRef(false);
  if (value === '') isLong.current = false;
  else if (/[\r\n]/.test(value)) isLong.current = true;
  useEffect(() => {
    if (wasPasted.current) box.current?.focus();
    wasPasted.current = false;
  }, [isLong.current]);
  const shared = {
    'aria-label': label,
    autocomplete: 'off',
    spellcheck: false,
    placeholder,
    value,
    // a text area makes a line break of a carriage return: “Text” has both
    readOnly: isReadOnly || value.includes('\r'),
    title: value.includes('\r') ? 'It has carriage returns: change it as text' : undefined,
  };
  if (isLong.current)
    return (
      <textarea
        {...shared}
        ref={box}
        class={`input mono value-lines ${isShown ? '' : 'value-masked'}`}
        rows={Math.min(mostRows, value.split('\n').length)}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    );
  return (
    <input
      {...shared}
      {...(isShown ? kinds.text : kinds.password)}
      class="input mono"
      onInput={({ currentTarget }) => onChange(currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || onEnter === undefined) return;
        event.preventDefault();
        onEnter();
      }}
      onPaste={(event) => {
        const text = event.clipboardData?.getData('text/plain').replaceAll(/\r\n?/g, '\n') ?? '';
        // a line that was copied with its end stays one line
        if (!text.trimEnd().includes('\n') || event.currentTarget.readOnly) return;
        event.preventDefault();
        const { selectionStart: from, selectionEnd: to } = event.currentTarget;
        wasPasted.current = true;
        onChange(value.slice(0, from ?? value.length) + text + value.slice(to ?? value.length));
      }}
    />
  );
}

function stateOf(before: string | undefined, value: string | undefined): string {
  if (value === undefined) return 'removed';
  if (before === undefined) return 'added';
  return value === before ? '' : 'changed';
}

interface NewVariableProps {
  readonly draft: Variables;
  readonly onAdd: (name: string, value: string) => void;
}

function NewVariable({ draft, onAdd }: NewVariableProps): VNode {
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const why =
    name === ''
      ? 'Enter a name first'
      : !isName(name)
        ? 'A name has no spaces and no “=”'
        : name in draft
          ? `${name} is there already`
          : undefined;
  const add = (): void => {
    if (why !== undefined) return;
    onAdd(name, value);
    setName('');
    setValue('');
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    add();
  };
  return (
    <div class="input-row">
      <input
        class="input mono"
        aria-label="Name of the new variable"
        placeholder="NAME"
        autocomplete="off"
        spellcheck={false}
        value={name}
        onInput={({ currentTarget }) => setName(currentTarget.value.trim())}
        onKeyDown={onKeyDown}
      />
      <ValueInput
        label="Value of the new variable"
        isShown
        placeholder="value, or ${databases.db.url}"
        value={value}
        onChange={setValue}
        onEnter={add}
      />
      <Button icon="plus" why={why} onClick={add}>
        Add
      </Button>
    </div>
  );
}

function without(variables: Variables, name: string): Variables {
  return Object.fromEntries(Object.entries(variables).filter(([key]) => key !== name));
}
