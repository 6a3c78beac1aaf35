import { render } from 'preact';
import type { Ref, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, storedLogin, storeLogin } from './api.ts';
import type { Login } from './api.ts';
import { html } from './html.ts';
import { useLiveModel } from './live-model.ts';
import type { Liveness } from './live-model.ts';
import type { Model } from './model.ts';
import { pageAt } from './page-table.ts';
import { ApplicationPage } from './pages/application.ts';
import { Board, Servers } from './pages/board.ts';
import { InvitePage } from './pages/invite.ts';
import { LoginPage } from './pages/login.ts';
import { PasswordPage } from './pages/password.ts';
import { useTitle } from './elements.ts';

const words: Readonly<Record<Liveness, string>> = {
  connecting: 'connecting',
  live: 'live',
  lost: 'connection lost: what is shown may be old',
  ended: 'logged out',
  reset: 'another password is needed',
};

function App(): VNode {
  const [login, setLogin] = useState(storedLogin);
  const [why, setWhy] = useState<string>();
  const change = (next: Login | undefined, reason?: string): void => {
    storeLogin(next);
    setWhy(reason);
    setLogin(next);
  };
  if (login === undefined)
    return html`<${LoginPage} done=${change} tenant=${tenantOf(read()) ?? 'default'} why=${why} />`;
  const end = (reason?: string): void => change(undefined, reason);
  return html`<${Console} key=${login.token} login=${login} end=${end} renew=${() => change({ ...login })} />`;
}

/** `renew` starts again with the same login, after a request that was refused has become allowed. */
function Console({ login, end, renew }: { login: Login; end: (reason?: string) => void; renew: () => void }): VNode {
  const { model, liveness } = useLiveModel(login);
  const path = usePath();
  const main = useFocusOnTurn(path);
  useEffect(() => {
    if (liveness === 'ended') end('The session has ended: log in again.');
  }, [liveness]);
  const logOut = async (): Promise<void> => {
    await call(login, 'POST', '/api/v1/auth/logout').catch(() => undefined); // the token is forgotten here in any case
    end();
  };
  return html`
    <header>
      <b>Setpoint</b>
      <nav>
        <a href="#/" aria-current=${path === '/' ? 'page' : undefined}>Applications</a>
        <a href="#/servers" aria-current=${path === '/servers' ? 'page' : undefined}>Servers</a>
      </nav>
      <span class=${`status small ${liveness === 'live' ? 'good' : 'bad'}`} role="status">${words[liveness]}</span>
      <span class="quiet small">${login.email} · ${login.tenant}</span>
      <button onClick=${logOut}>Log out</button>
    </header>
    <main ref=${main} tabindex="-1">
      ${liveness === 'reset' ? html`<${PasswordPage} login=${login} done=${renew} />` : shown(path, login, model)}
    </main>
  `;
}

function shown(path: string, login: Login, model: Model | undefined): VNode {
  return model === undefined ? html`<p class="quiet">Reading…</p>` : pageOf(path, login, model);
}

function pageOf(path: string, login: Login, model: Model): VNode {
  const page = pageAt(path);
  switch (page?.name) {
    case 'application':
      return html`<${ApplicationPage} login=${login} model=${model} id=${page.about} />`;
    case 'invite':
      return html`<${InvitePage} login=${login} token=${page.about} />`;
    case 'servers':
      return html`<${Servers} model=${model} />`;
    case 'board':
      return html`<${Board} model=${model} />`;
    case undefined:
      return html`<${NoPage} />`;
  }
}

function NoPage(): VNode {
  useTitle('No such page');
  return html`<h1>No such page</h1>
    <p class="notice"><a href="#/">All applications</a></p>`;
}

/** The tenant in the link of an invite: an invited user need not know it. */
function tenantOf(path: string): string | undefined {
  return pageAt(path)?.name === 'invite' ? path.split('/')[1] : undefined;
}

/** The part of the URL that names the shown page. */
function read(): string {
  return location.hash.replace(/^#/, '') || '/';
}

function usePath(): string {
  const [path, setPath] = useState(read);
  useEffect(() => {
    const onChange = (): void => setPath(read());
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  return path;
}

/** Moves the keyboard focus to the start of a new page. */
function useFocusOnTurn(path: string): Ref<HTMLElement> {
  const element = useRef<HTMLElement>(null);
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current !== path) element.current?.focus();
    shown.current = path;
  }, [path]);
  return element;
}

const root = document.querySelector('#root');
if (root !== null) render(html`<${App} />`, root);
