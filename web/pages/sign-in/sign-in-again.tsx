import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Login } from '../../api.ts';
import { SignIn } from './sign-in.tsx';

interface SignInAgainProps {
  readonly login: Login;
  readonly why: string;
  readonly done: (login: Login) => Promise<void>;
}

/** Where one signs in after the session has ended: over the page, which it covers and which keeps what was entered. */
export function SignInAgain({ login, why, done }: SignInAgainProps): VNode {
  const element = useRef<HTMLDialogElement>(null);
  const [title] = useState(document.title);
  // before the browser takes the focus from the page, which is hidden
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      document.title = title;
      // once the page is shown again
      queueMicrotask(() => {
        if (before instanceof HTMLElement && before.isConnected) before.focus();
      });
    };
  }, []);
  return (
    <dialog
      ref={element}
      class="entry-cover"
      aria-label="Sign in"
      onCancel={(event) => event.preventDefault()}
      // a browser closes it all the same when one insists
      onClose={() => element.current?.showModal()}
    >
      <SignIn tenant={login.tenant} email={login.email} why={why} done={done} />
    </dialog>
  );
}
