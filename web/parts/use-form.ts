import { useState } from 'preact/hooks';
import { refusalOf } from './refusal.ts';
import type { Refusal } from './refusal.ts';
import { faultOf } from './schema-fields.ts';
import type { FieldSpec } from './schema-fields.ts';
import type { Values } from './schema-form.tsx';

interface FormState {
  readonly values: Values;
  readonly setValues: (values: Values) => void;
  readonly faults: Readonly<Record<string, string>>;
  readonly error: Refusal | undefined;
  readonly busy: boolean;
  /** The values that differ from those at the start. */
  readonly changed: Values;
  /** Sends what has changed. @returns whether it was sent: not if a field is wrong */
  readonly submit: () => boolean;
  readonly reset: (values?: Values) => void;
}

/**
 * The state of a form: its draft, apart from the object that it is of, so that neither a change by another nor an error
 * loses what was entered; and what is wrong, as the schema and then the server say.
 */
export function useForm(
  fields: readonly FieldSpec[],
  initial: Values,
  send: (changed: Values) => Promise<void>,
): FormState {
  const [start, setStart] = useState(initial);
  const [values, setValues] = useState(initial);
  const [faults, setFaults] = useState<Readonly<Record<string, string>>>({});
  const [error, setError] = useState<Refusal>();
  const [busy, setBusy] = useState(false);
  const changed = changesBetween(start, values);
  const submit = (): boolean => {
    const found = faultsOf(fields, values);
    setFaults(found);
    setError(undefined);
    if (Object.keys(found).length > 0) return false;
    setBusy(true);
    send(changed).then(
      () => setBusy(false),
      (reason: unknown) => {
        setBusy(false);
        const refusal = refusalOf(reason);
        setFaults(ofServer(fields, refusal));
        setError(refusal);
      },
    );
    return true;
  };
  return {
    values,
    setValues: (next) => {
      setValues(next);
      if (Object.keys(faults).length > 0) setFaults(withoutChanged(faults, values, next));
    },
    faults,
    error,
    busy,
    changed,
    submit,
    reset: (next = start) => {
      setStart(next);
      setValues(next);
      setFaults({});
      setError(undefined);
    },
  };
}

function faultsOf(fields: readonly FieldSpec[], values: Values): Record<string, string> {
  return Object.fromEntries(
    fields.flatMap((field) => {
      const fault = faultOf(field, values[field.name]);
      return fault === undefined ? [] : [[field.name, fault]];
    }),
  );
}

/** What the server says of fields; of a nested one it is shown at the field that the form has. */
function ofServer(fields: readonly FieldSpec[], { details = [] }: Refusal): Record<string, string> {
  const names = new Set(fields.map(({ name }) => name));
  return Object.fromEntries(
    details.flatMap(({ field, message }) => {
      const name = field.replace(/^body\./, '').split(/[.[]/)[0] ?? '';
      return names.has(name) ? [[name, message]] : [];
    }),
  );
}

/** The faults of fields whose value stayed as it was. */
function withoutChanged(
  faults: Readonly<Record<string, string>>,
  before: Values,
  after: Values,
): Record<string, string> {
  return Object.fromEntries(Object.entries(faults).filter(([name]) => before[name] === after[name]));
}

/** The values that are others than before. */
export function changesBetween(before: Values, after: Values): Values {
  return Object.fromEntries(
    Object.entries(after).filter(([name, value]) => JSON.stringify(before[name]) !== JSON.stringify(value)),
  );
}
