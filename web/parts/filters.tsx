import type { VNode } from 'preact';
import { useId } from 'preact/hooks';
import { Button } from './button.tsx';
import type { Option } from './inputs.tsx';
import { Notice } from './notice.tsx';

export interface FilterField {
  readonly name: string;
  readonly label: string;
  readonly options: readonly Option[];
}

export type FilterValues = Readonly<Record<string, string>>;

interface FiltersProps {
  readonly fields: readonly FilterField[];
  /** What the text search looks at; without it, there is none. */
  readonly search?: string | undefined;
  /** As the address has them. */
  readonly values: FilterValues;
  readonly onChange: (values: FilterValues) => void;
}

/** What a list is narrowed by. A value that no field has is said, and can be cleared: it is never ignored. */
export function Filters({ fields, search, values, onChange }: FiltersProps): VNode {
  const id = useId();
  const set = (name: string, value: string): void => {
    const rest = Object.entries(values).filter(([other]) => other !== name);
    onChange(Object.fromEntries(value === '' ? rest : [...rest, [name, value]]));
  };
  const unknown = fields.filter(({ name, options }) => {
    const value = values[name];
    return value !== undefined && !options.some((option) => option.value === value);
  });
  const isSet = Object.keys(values).some((name) => name === 'q' || fields.some((field) => field.name === name));
  return (
    <div class="stack-tight">
      <div class="filters" role="search" aria-label="Filters">
        {search !== undefined && (
          <div class="field filters-search">
            <label class="sr-only" for={`${id}-q`}>
              {search}
            </label>
            <input
              id={`${id}-q`}
              type="search"
              class="input"
              placeholder={search}
              data-search
              value={values['q'] ?? ''}
              onInput={(event) => set('q', event.currentTarget.value)}
            />
          </div>
        )}
        {fields.map(({ name, label, options }) => (
          <div key={name} class="field">
            <label class="sr-only" for={`${id}-${name}`}>
              {label}
            </label>
            <select
              id={`${id}-${name}`}
              class="input"
              value={values[name] ?? ''}
              onChange={(event) => set(name, event.currentTarget.value)}
            >
              <option value="">{label}: all</option>
              {unknown.some((field) => field.name === name) && <option value={values[name]}>{values[name]}</option>}
              {options.map((option) => (
                <option key={option.value} value={option.value}>
                  {option.label}
                </option>
              ))}
            </select>
          </div>
        ))}
        {isSet && <Button onClick={() => onChange({})}>Clear filters</Button>}
      </div>
      {unknown.map(({ name, label }) => (
        <Notice
          key={name}
          shape="warn"
          actions={
            <Button isSmall onClick={() => set(name, '')}>
              Clear it
            </Button>
          }
        >
          <p>
            {label} “{values[name]}” is not known: nothing matches it.
          </p>
        </Notice>
      ))}
    </div>
  );
}
