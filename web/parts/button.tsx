import type { ComponentChildren, VNode } from 'preact';
import { useId } from 'preact/hooks';
import { Icon } from './icon.tsx';
import type { IconName } from './icon.tsx';
import { Shape } from './shape.tsx';
import { Tooltip } from './tooltip.tsx';

export interface ButtonProps {
  readonly children: ComponentChildren;
  readonly tone?: 'primary' | 'danger' | 'plain' | undefined;
  readonly isSmall?: boolean | undefined;
  /** A request runs; the button keeps its width and takes no click. */
  readonly busy?: boolean | undefined;
  /** Why it cannot be pressed now. It stays focusable, so that the reason can be read. */
  readonly why?: string | undefined;
  readonly type?: 'button' | 'submit' | undefined;
  readonly form?: string | undefined;
  readonly pressed?: boolean | undefined;
  readonly icon?: IconName | undefined;
  readonly onClick?: (() => void) | undefined;
}

/** A button with a word. */
export function Button(props: ButtonProps): VNode {
  const { children, tone, isSmall = false, busy = false, why, type = 'button', form, pressed, icon, onClick } = props;
  const id = useId();
  const isOff = busy || why !== undefined;
  const classes = ['button', tone !== undefined && `button-${tone}`, isSmall && 'button-small', busy && 'button-busy'];
  const button = (
    <button
      type={type}
      form={form}
      class={classes.filter((name) => name !== false).join(' ')}
      aria-disabled={isOff ? 'true' : undefined}
      aria-busy={busy ? 'true' : undefined}
      aria-pressed={pressed}
      aria-describedby={why === undefined ? undefined : id}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onClick?.();
      }}
    >
      <span class="button-content">
        {icon !== undefined && <Icon name={icon} />}
        {children}
      </span>
      {busy && (
        <span class="button-spinner">
          <Shape of="busy" />
        </span>
      )}
    </button>
  );
  if (why === undefined) return button;
  return (
    <Tooltip text={why} id={id}>
      {button}
    </Tooltip>
  );
}

interface IconButtonProps {
  readonly icon: IconName;
  /** What it does, in words: its name, and what is shown on hover. */
  readonly label: string;
  readonly isSmall?: boolean | undefined;
  readonly pressed?: boolean | undefined;
  readonly onClick: () => void;
}

/** A button with a picture in place of a word. */
export function IconButton({ icon, label, isSmall = false, pressed, onClick }: IconButtonProps): VNode {
  return (
    <Tooltip text={label} isName>
      <button
        type="button"
        class={`button button-plain button-icon${isSmall ? ' button-small' : ''}`}
        aria-label={label}
        aria-pressed={pressed}
        onClick={onClick}
      >
        <Icon name={icon} />
      </button>
    </Tooltip>
  );
}

interface LinkButtonProps {
  readonly href: string;
  readonly children: ComponentChildren;
  readonly tone?: 'primary' | undefined;
  readonly icon?: IconName | undefined;
}

/** A link that looks like a button: it leads to a page and does nothing else. */
export function LinkButton({ href, children, tone, icon }: LinkButtonProps): VNode {
  return (
    <a class={`button${tone === undefined ? '' : ` button-${tone}`}`} href={href}>
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </a>
  );
}
