import type { ComponentChildren, VNode } from 'preact';
import { useId } from 'preact/hooks';
import { Shape } from './shape.tsx';

/** What a field gives to its control, so that both belong together. */
export interface ControlProps {
  readonly id: string;
  readonly name?: string | undefined;
  readonly required?: boolean | undefined;
  /** The name of a control that no label stands beside. */
  readonly 'aria-label'?: string | undefined;
  readonly 'aria-describedby'?: string | undefined;
  readonly 'aria-invalid'?: 'true' | undefined;
}

interface FieldProps {
  readonly label: string;
  readonly name?: string | undefined;
  readonly help?: ComponentChildren;
  readonly error?: string | undefined;
  readonly isRequired?: boolean | undefined;
  /** Says beside the label that it may be left empty. */
  readonly isOptional?: boolean | undefined;
  /** Of how many characters how many are used; shown near the end. */
  readonly count?: { readonly used: number; readonly most: number } | undefined;
  readonly children: (control: ControlProps) => ComponentChildren;
}

/** A label, a control, what it means and what is wrong with it. */
export function Field(props: FieldProps): VNode {
  const { label, name, help, error, isRequired = false, isOptional = false, count, children } = props;
  const id = useId();
  const hasHelp = help !== undefined && help !== '';
  const about = [hasHelp && `${id}-help`, error !== undefined && `${id}-error`].filter((one) => one !== false);
  return (
    <div class="field">
      <label class="field-label" for={id}>
        {label}
        {isOptional && <span class="field-optional">optional</span>}
      </label>
      {children({
        id,
        name,
        required: isRequired ? true : undefined,
        'aria-describedby': about.length === 0 ? undefined : about.join(' '),
        'aria-invalid': error === undefined ? undefined : 'true',
      })}
      {error !== undefined && (
        <span class="field-error" id={`${id}-error`}>
          <Shape of="bad" />
          {error}
        </span>
      )}
      {hasHelp && (
        <span class="field-help" id={`${id}-help`}>
          {help}
        </span>
      )}
      {count !== undefined && count.used > count.most * 0.8 && (
        <span class="field-count" aria-hidden="true">
          {count.used} of {count.most}
        </span>
      )}
    </div>
  );
}

interface GroupProps {
  readonly label: string;
  readonly help?: ComponentChildren;
  readonly error?: string | undefined;
  readonly children: ComponentChildren;
}

/** Several controls under one name, such as radio buttons. */
export function FieldGroup({ label, help, error, children }: GroupProps): VNode {
  const id = useId();
  return (
    <fieldset class="field" aria-describedby={error === undefined ? undefined : `${id}-error`}>
      <legend class="field-label">{label}</legend>
      {children}
      {error !== undefined && (
        <span class="field-error" id={`${id}-error`}>
          <Shape of="bad" />
          {error}
        </span>
      )}
      {help !== undefined && help !== '' && <span class="field-help">{help}</span>}
    </fieldset>
  );
}
