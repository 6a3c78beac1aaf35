import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from './button.tsx';
import { Command } from './command.tsx';
import { Dialog } from './dialog.tsx';
import { ErrorBox } from './error-box.tsx';
import type { Refusal } from './refusal.ts';
import { Field } from './field.tsx';
import { Shape } from './shape.tsx';

interface ConfirmProps {
  readonly title: string;
  /** The button that does it, such as `Delete fsn1`. */
  readonly verb: string;
  /** What goes, by name. */
  readonly goes: readonly string[];
  /** What stays, by name. */
  readonly stays: readonly string[];
  /** A name to type, where data goes. */
  readonly type?: string | undefined;
  /** Why it cannot be done now, or not by this reader. */
  readonly why?: string | undefined;
  /** The same as a command. */
  readonly command?: string | undefined;
  readonly busy?: boolean | undefined;
  readonly error?: Refusal | undefined;
  readonly children?: ComponentChildren;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

/** Asks before something goes: says by name what goes and what stays, and has the name typed where data goes. */
export function Confirm(props: ConfirmProps): VNode {
  const { title, verb, goes, stays, type, command, busy = false, error, children, onConfirm, onClose } = props;
  const [typed, setTyped] = useState('');
  // what was shown as it was typed
  const [named, setNamed] = useState<ReadonlySet<string>>(new Set());
  const why = props.why ?? whyNotTyped(type, typed, goes, named);
  const foot = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button tone="danger" busy={busy} why={why} onClick={onConfirm}>
        {verb}
      </Button>
    </>
  );
  return (
    <Dialog title={title} foot={foot} onClose={onClose}>
      {error !== undefined && <ErrorBox error={error} />}
      {children}
      <div class="confirm-columns">
        <NameList title="Goes" shape="bad" names={goes} />
        <NameList title="Stays" shape="good" names={stays} />
      </div>
      {type !== undefined && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (why === undefined && !busy) onConfirm();
          }}
        >
          <Field label={`Type ${type} to confirm`}>
            {(field) => (
              <input
                {...field}
                class="input"
                value={typed}
                autocomplete="off"
                spellcheck={false}
                onInput={(event) => {
                  setTyped(event.currentTarget.value);
                  setNamed(new Set(goes));
                }}
              />
            )}
          </Field>
        </form>
      )}
      {command !== undefined && (
        <details class="details">
          <summary>The same as a command</summary>
          <Command text={command} />
        </details>
      )}
    </Dialog>
  );
}

/** Why a name that was typed is no consent to all that goes. */
function whyNotTyped(
  type: string | undefined,
  typed: string,
  goes: readonly string[],
  named: ReadonlySet<string>,
): string | undefined {
  if (type === undefined) return undefined;
  if (typed.trim() !== type) return `Type ${type} first`;
  return goes.every((name) => named.has(name))
    ? undefined
    : `More goes than when ${type} was typed: look at it, and type it again`;
}

function NameList({
  title,
  shape,
  names,
}: {
  readonly title: string;
  readonly shape: 'bad' | 'good';
  readonly names: readonly string[];
}): VNode | null {
  if (names.length === 0) return null;
  return (
    <div class="stack-tight">
      <h3>{title}</h3>
      <ul class="confirm-list">
        {names.map((name) => (
          <li key={name}>
            <Shape of={shape} />
            <span>{name}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
