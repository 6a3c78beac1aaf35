import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Menu as menuIcon, Search, X } from 'lucide-static';
import { pages } from '../pages/pages.ts';
import { AccountMenu } from './account-menu.tsx';
import { ConnectionState } from './connection-state.tsx';
import { useConsole, useHref } from './context.ts';
import { Icon } from './icon.tsx';
import { useKeys } from './keys.ts';
import { KeysDialog } from './keys-dialog.tsx';
import { NotificationsMenu } from './notifications-menu.tsx';
import { PageFrame } from './page-frame.tsx';
import { Palette } from './palette.tsx';
import { Rail } from './rail.tsx';
import { pageAt, placeOf } from './router.ts';
import { Toasts } from '../parts/toasts.tsx';
import { ProtectContext } from '../parts/use-unsaved.ts';

type Open = 'palette' | 'keys' | 'rail' | undefined;

/** What is around every page: the way to all others, search, the state of the connection, and the reader's account. */
export function Shell(): VNode {
  const { login, router, messages } = useConsole();
  const href = useHref();
  const [open, setOpen] = useState<Open>();
  const place = placeOf(router.hash.value, login.tenant);
  const found = place.tenant === login.tenant ? pageAt(pages, place.path) : undefined;
  useKeys({
    palette: () => setOpen('palette'),
    keys: () => setOpen('keys'),
    go: (path) => router.go(href(path)),
  });
  useEffect(() => setOpen((now) => (now === 'rail' ? undefined : now)), [place.path]);
  return (
    <div class="shell">
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector<HTMLElement>('main')?.focus();
        }}
      >
        Skip to the page
      </a>
      <header class="topbar">
        <button
          class="button button-plain button-icon topbar-rail"
          aria-label="Navigation"
          aria-haspopup="dialog"
          onClick={() => setOpen('rail')}
        >
          <Icon of={menuIcon} size={18} />
        </button>
        <a class="topbar-brand" href={href(['projects'])}>
          Setpoint
        </a>
        <span class="topbar-tenant" title="Tenant">
          {login.tenant}
        </span>
        <button
          class="topbar-search"
          aria-haspopup="dialog"
          aria-label="Search or do"
          onClick={() => setOpen('palette')}
        >
          <Icon of={Search} />
          <span class="topbar-search-text">Search or do</span>
          <kbd aria-hidden="true">/</kbd>
        </button>
        <ConnectionState />
        <NotificationsMenu />
        <AccountMenu showKeys={() => setOpen('keys')} />
      </header>
      <nav class="rail" aria-label="Places">
        <Rail current={found?.page.place ?? 'none'} projectId={found?.params['projectId']} />
      </nav>
      {open === 'rail' && (
        <RailDrawer onClose={() => setOpen(undefined)}>
          <Rail current={found?.page.place ?? 'none'} projectId={found?.params['projectId']} />
        </RailDrawer>
      )}
      <main id="main" class="content" tabIndex={-1}>
        <ProtectContext.Provider value={router.protect}>
          <PageFrame place={place} found={found} />
        </ProtectContext.Provider>
      </main>
      <Toasts toasts={messages.shown.value} onClose={(id) => messages.close(id)} />
      {open === 'palette' && <Palette onClose={() => setOpen(undefined)} />}
      {open === 'keys' && <KeysDialog onClose={() => setOpen(undefined)} />}
    </div>
  );
}

/** The places over the page, where the window is too narrow for a rail. */
function RailDrawer({ onClose, children }: { onClose: () => void; children: VNode }): VNode {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} class="rail-drawer" aria-label="Places" onClose={onClose}>
      <button
        class="button button-plain button-icon"
        aria-label="Close the navigation"
        onClick={() => element.current?.close()}
      >
        <Icon of={X} size={18} />
      </button>
      {children}
    </dialog>
  );
}
