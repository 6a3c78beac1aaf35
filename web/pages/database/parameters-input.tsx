import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Button, IconButton } from '../../parts/button.tsx';
import type { ControlProps } from '../../parts/field.tsx';

interface ParametersInputProps {
  readonly control: ControlProps;
  /** Those that the engine takes; empty: the server says which it refuses. */
  readonly known: readonly string[];
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
}

/** Settings of an engine, each with its value. One that is removed gets its usual value back. */
export function ParametersInput({ control, known, value, onChange }: ParametersInputProps): VNode {
  const [name, setName] = useState('');
  const given = Object.entries(typeof value === 'object' && value !== null ? value : {}).filter(
    ([, text]) => text !== null,
  );
  const others = known.filter((one) => !given.some(([taken]) => taken === one));
  const set = (change: Readonly<Record<string, string>>): void => onChange({ ...Object.fromEntries(given), ...change });
  const add = (): void => {
    set({ [name.trim()]: '' });
    setName('');
  };
  return (
    <div class="list-field">
      {given.map(([key, text]) => (
        <div key={key} class="input-row">
          <code class="grow">{key}</code>
          <input
            class="input"
            aria-label={`Value of ${key}`}
            value={String(text)}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => set({ [key]: event.currentTarget.value })}
          />
          <IconButton
            icon="remove"
            label={`Remove ${key}`}
            onClick={() => onChange(Object.fromEntries(given.filter(([other]) => other !== key)))}
          />
        </div>
      ))}
      <div class="input-row">
        {known.length === 0 ? (
          <input
            {...control}
            class="input"
            placeholder="Name"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        ) : (
          <select {...control} class="input" value={name} onChange={(event) => setName(event.currentTarget.value)}>
            <option value="">Choose one…</option>
            {others.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        )}
        <Button icon="plus" why={name.trim() === '' ? 'Choose a parameter first' : undefined} onClick={add}>
          Add
        </Button>
      </div>
    </div>
  );
}
