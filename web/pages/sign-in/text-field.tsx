import type { InputHTMLAttributes, VNode } from 'preact';
import { useId } from 'preact/hooks';

interface TextFieldProps extends InputHTMLAttributes<HTMLInputElement> {
  readonly label: string;
  readonly help?: string;
}

/** A field of a form that the browser itself keeps: a password never becomes a value of the page. */
export function TextField({ label, help, ...input }: TextFieldProps): VNode {
  const id = useId();
  return (
    <div class="field">
      <label class="field-label" for={id}>
        {label}
      </label>
      <input class="input" id={id} {...(help !== undefined && { 'aria-describedby': `${id}-help` })} {...input} />
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
