import { signal } from '@preact/signals';
import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { call, storedLogin, storeLogin } from '../api.ts';
import type { Login } from '../api.ts';
import type { User } from '../model.ts';
import { SignIn } from '../pages/sign-in/sign-in.tsx';
import { NewPassword } from '../pages/sign-in/new-password.tsx';
import { Collections } from './collections.ts';
import { ConsoleContext } from './context.ts';
import type { Console } from './context.ts';
import { pauseAfter } from './pause-after.ts';
import { Rights } from './rights.ts';
import { Router, tenantIn } from './router.ts';
import { Shell } from './shell.tsx';
import { Store } from './store.ts';
import { Messages } from './messages.ts';
import { Watch } from './watch.ts';

export function App(): VNode {
  const [login, setLogin] = useState(storedLogin);
  const [why, setWhy] = useState<string>();
  const router = useMemo(() => new Router(), []);
  const change = (next: Login | undefined, reason?: string): void => {
    storeLogin(next);
    setWhy(reason);
    setLogin(next);
  };
  const named = tenantIn(router.hash.value);
  if (login === undefined)
    return <SignIn key={named} done={change} tenant={named ?? 'default'} {...(why !== undefined && { why })} />;
  return (
    <SignedIn
      key={login.token}
      login={login}
      router={router}
      end={(reason) => change(undefined, reason)}
      renew={() => change({ ...login })}
    />
  );
}

interface SignedInProps {
  readonly login: Login;
  readonly router: Router;
  readonly end: (reason?: string) => void;
  /** Starts again with the same login, after a request that was refused has become allowed. */
  readonly renew: () => void;
}

function SignedIn({ login, router, end, renew }: SignedInProps): VNode {
  const it = useConsoleOf(login, router, end);
  const { state } = it.watch.connection.value;
  useEffect(() => {
    if (state === 'ended') end('The session has ended: sign in again.');
  }, [state]);
  return (
    <ConsoleContext.Provider value={it}>
      {state === 'reset' ? <NewPassword login={login} done={renew} /> : <Shell />}
    </ConsoleContext.Provider>
  );
}

/** All that pages use, from this login on until another one. */
function useConsoleOf(login: Login, router: Router, end: (reason?: string) => void): Console {
  const it = useMemo((): Console => {
    const store = new Store();
    const collections = new Collections(login, store);
    const me = signal<User | undefined>(undefined);
    const readMe = (failures = 0): void => {
      call(login, 'GET', '/api/v1/auth/me').then(
        (user) => (me.value = user),
        (error: unknown) => {
          const pauseMs = pauseAfter(error, failures);
          if (pauseMs !== undefined) setTimeout(() => readMe(failures + 1), pauseMs);
        },
      );
    };
    const rights = new Rights(login, me);
    const watch = new Watch(
      login,
      () => {
        readMe();
        rights.askAgain();
        collections.readAll();
      },
      (change) => store.change(change),
    );
    return { login, me, store, collections, rights, watch, router, messages: new Messages(), end };
  }, [login]);
  useEffect(() => () => it.watch.close(), [it]);
  return it;
}
