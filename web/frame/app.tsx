import { signal } from '@preact/signals';
import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { call, Refused, renewLogin, storedLogin, storeLogin } from '../api.ts';
import type { Login } from '../api.ts';
import type { User } from '../model.ts';
import { SignIn } from '../pages/sign-in/sign-in.tsx';
import { SignInAgain } from '../pages/sign-in/sign-in-again.tsx';
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
  // each login begins anew, also one with the token of the one before
  const [{ login, count }, setSession] = useState(() => ({ login: storedLogin(), count: 0 }));
  const [why, setWhy] = useState<string>();
  const router = useMemo(() => new Router(), []);
  const change = (next: Login | undefined, reason?: string): void => {
    storeLogin(next);
    setWhy(reason);
    setSession({ login: next, count: count + 1 });
  };
  const named = tenantIn(router.hash.value);
  if (login === undefined)
    return <SignIn key={named} done={change} tenant={named ?? 'default'} {...(why !== undefined && { why })} />;
  return <SignedIn key={count} login={login} router={router} change={change} />;
}

interface SignedInProps {
  readonly login: Login;
  readonly router: Router;
  /** Begins anew with a login, or without one; `reason` is shown where one signs in. */
  readonly change: (next: Login | undefined, reason?: string) => void;
}

function SignedIn({ login, router, change }: SignedInProps): VNode {
  const it = useConsoleOf(login, router, (reason) => change(undefined, reason));
  const { state } = it.watch.connection.value;
  useEffect(() => {
    if (state !== 'ended') return;
    storeLogin(undefined);
    // nothing has been shown yet
    if (it.me.peek() === undefined) it.end(`${ended}: sign in again.`);
  }, [state]);
  const goOn = async (next: Login): Promise<void> => {
    if (!(await isSameReader(next, login, it.me.peek()))) {
      change(next);
      return;
    }
    renewLogin(login, next.token);
    storeLogin(login);
    it.watch.renew();
  };
  return (
    <ConsoleContext.Provider value={it}>
      {state === 'reset' ? <NewPassword login={login} done={() => change({ ...login })} /> : <Shell />}
      {state === 'ended' && (
        <SignInAgain login={login} why={`${ended}: sign in again. What you entered is kept.`} done={goOn} />
      )}
    </ConsoleContext.Provider>
  );
}

const ended = 'The session has ended';

/** How often a control plane that is busy is asked whose a login is. */
const maxAsks = 4;

/**
 * Whether a login is of the account before, with the rights that it had in the tenant. @throws Refused while the control
 * plane is busy; Error without an answer
 */
async function isSameReader(next: Login, { tenant }: Login, before: User | undefined): Promise<boolean> {
  if (next.tenant !== tenant) return false;
  for (let failures = 0; ; failures += 1) {
    try {
      const user = await call(next, 'GET', '/api/v1/auth/me');
      return user.id === before?.id && user.role === before.role;
    } catch (error) {
      const pauseMs = pauseAfter(error, failures);
      // such as that another password must be chosen first
      if (pauseMs === undefined) return false;
      if (!(error instanceof Refused) || failures + 1 === maxAsks) throw error;
      await new Promise((resolve) => void setTimeout(resolve, pauseMs));
    }
  }
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
