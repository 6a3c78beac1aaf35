import type { ComponentChildren, VNode } from 'preact';
import { useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import { ErrorBox } from './error-box.tsx';
import type { Refusal } from './refusal.ts';

interface FormProps {
  readonly label: string;
  readonly children: ComponentChildren;
  /** The word of the button that sends it; without it the form has no button of its own. */
  readonly verb?: string | undefined;
  readonly busy?: boolean | undefined;
  readonly why?: string | undefined;
  readonly error?: Refusal | undefined;
  readonly id?: string | undefined;
  readonly foot?: ComponentChildren;
  /** Uses the whole width, as code does. */
  readonly isWide?: boolean | undefined;
  /** Returns whether it was sent; if not, the first wrong field gets the focus. */
  readonly onSubmit: () => boolean;
  readonly onCancel?: (() => void) | undefined;
}

/** A form. What the server refuses as a whole stands at its top; what it says of a field stands at the field. */
export function Form(props: FormProps): VNode {
  const { label, children, verb, busy, why, error, id, foot, isWide = false, onSubmit, onCancel } = props;
  const element = useRef<HTMLFormElement>(null);
  return (
    <form
      ref={element}
      id={id}
      class={isWide ? 'form form-wide' : 'form'}
      aria-label={label}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (busy === true || why !== undefined || onSubmit()) return;
        requestAnimationFrame(() => element.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus());
      }}
    >
      {error !== undefined && <ErrorBox error={error} />}
      {children}
      {(verb !== undefined || foot !== undefined) && (
        <div class="form-foot">
          {verb !== undefined && (
            <Button type="submit" tone="primary" busy={busy} why={why}>
              {verb}
            </Button>
          )}
          {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
          {foot}
        </div>
      )}
    </form>
  );
}
