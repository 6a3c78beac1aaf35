import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Button, IconButton } from './button.tsx';
import { useUnsaved } from './use-unsaved.ts';

export interface DialogProps {
  readonly title: string;
  readonly children: ComponentChildren;
  /** Its buttons. */
  readonly foot?: ComponentChildren;
  readonly onClose: () => void;
  /** Something was entered: closing asks first, and so does leaving the page. */
  readonly dirty?: boolean | undefined;
  readonly isWide?: boolean | undefined;
}

/** A dialog in the middle. The browser keeps the focus inside, and gives it back when it is closed. */
export function Dialog(props: DialogProps): VNode {
  return <Modal {...props} look={props.isWide === true ? 'dialog dialog-wide' : 'dialog'} />;
}

/** A dialog at the right side; the whole screen where that is narrow. */
export function Drawer(props: DialogProps): VNode {
  return <Modal {...props} look="drawer" />;
}

function Modal({ title, children, foot, onClose, dirty = false, look }: DialogProps & { look: string }): VNode {
  const element = useRef<HTMLDialogElement>(null);
  const [asks, setAsks] = useState(false);
  const heading = useId();
  useUnsaved(dirty);
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const close = (): void => {
    if (dirty && !asks) setAsks(true);
    else onClose();
  };
  return (
    <dialog
      ref={element}
      class={look}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === element.current) close();
      }}
    >
      <div class="dialog-head">
        <h2 id={heading}>{title}</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </div>
      {asks && (
        <div class="dialog-ask" role="alert">
          <span>What you entered is not saved.</span>
          <span class="row">
            <Button isSmall onClick={() => setAsks(false)}>
              Go on
            </Button>
            <Button isSmall onClick={onClose}>
              Discard
            </Button>
          </span>
        </div>
      )}
      <div class="dialog-body">{children}</div>
      {foot !== undefined && <div class="dialog-foot">{foot}</div>}
    </dialog>
  );
}
