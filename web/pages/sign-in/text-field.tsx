import type { VNode } from 'preact';
import { useId } from 'preact/hooks';

interface TextFieldProps {
  readonly label: string;
  readonly name: string;
  readonly type?: 'email' | 'password';
  readonly help?: string;
  readonly isOptional?: boolean;
  readonly isNumeric?: boolean;
  readonly minLength?: number;
  readonly autocomplete: string;
  readonly autofocus?: boolean;
  /** Without it the browser keeps what is typed: a password never becomes a value of the page. */
  readonly value?: string;
  readonly onInput?: (value: string) => void;
}

/** How the control of each kind of text is made. */
const kinds = { text: { type: 'text' }, email: { type: 'email' }, password: { type: 'password' } } as const;

/** A field of a form that is sent before anything of a tenant is shown. */
export function TextField(props: TextFieldProps): VNode {
  const { label, name, type = 'text', help, isOptional = false, isNumeric = false, onInput } = props;
  const { minLength, autocomplete, autofocus, value } = props;
  const id = useId();
  return (
    <div class="field">
      <label class="field-label" for={id}>
        {label}
        {isOptional && <span class="field-optional">optional</span>}
      </label>
      <input
        {...kinds[type]}
        class="input"
        id={id}
        name={name}
        required={!isOptional}
        autocomplete={autocomplete}
        autofocus={autofocus}
        minLength={minLength}
        inputMode={isNumeric ? 'numeric' : undefined}
        aria-describedby={help === undefined ? undefined : `${id}-help`}
        {...(value !== undefined && { value })}
        onInput={(event) => onInput?.(event.currentTarget.value)}
      />
      {help !== undefined && (
        <p class="field-help" id={`${id}-help`}>
          {help}
        </p>
      )}
    </div>
  );
}

/** The text in a field of a form. */
export function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === 'string' ? value : '';
}
