import { Component } from 'preact';
import type { ComponentChildren, ComponentType, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { messageOf } from '../api.ts';
import type { PageDescriptor, PageProps } from '../pages/page.ts';
import { useHref } from './context.ts';
import type { Place } from './router.ts';

interface PageFrameProps {
  readonly place: Place;
  readonly found: { page: PageDescriptor; params: Record<string, string> } | undefined;
}

/** Loads the page of an address and shows it; what goes wrong in it stays in it. */
export function PageFrame({ place, found }: PageFrameProps): VNode {
  if (found === undefined) return <NoPage place={place} />;
  const about = [found.page.path, ...Object.entries(found.params).filter(([name]) => name !== 'tab')].join(' ');
  return (
    <Boundary key={about}>
      <Loaded key={found.page.path} page={found.page} about={about} params={found.params} query={place.query} />
    </Boundary>
  );
}

interface LoadedProps extends PageProps {
  readonly page: PageDescriptor;
  /** What the page is about: another value is another page. */
  readonly about: string;
}

function Loaded({ page, about, params, query }: LoadedProps): VNode {
  const [Shown, setShown] = useState<ComponentType<PageProps>>();
  const [error, setError] = useState<string>();
  useEffect(() => {
    let isCurrent = true;
    page.load().then(
      (loaded) => isCurrent && setShown(() => loaded),
      async (failure: unknown) => {
        const reloads = await isWorthReloading();
        if (!isCurrent) return;
        if (reloads) location.reload();
        else setError(messageOf(failure));
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [page]);
  useFocusOnTurn(about, Shown !== undefined);
  if (error !== undefined) throw new Error(`This page did not load: ${error}`);
  if (Shown === undefined)
    return (
      <div class="page">
        <div class="skeleton" aria-label={`${page.title} is loading`} role="status">
          <span />
          <span />
          <span />
        </div>
      </div>
    );
  return <Shown params={params} query={query} />;
}

const lastReload = 'setpoint.reloaded-for-page';
const reloadsApartMs = 30_000;

/**
 * A module that did not arrive once is never asked for again by the page that runs: its network had changed, or the control
 * plane has another release by now, whose modules have other names. Then the console is loaded again, unless that was tried
 * just now, or the control plane does not answer.
 */
async function isWorthReloading(): Promise<boolean> {
  if (Date.now() - Number(sessionStorage.getItem(lastReload) ?? 0) < reloadsApartMs) return false;
  const signal = AbortSignal.timeout(5000);
  const isThere = await fetch(location.pathname, { method: 'HEAD', signal }).then(
    ({ ok }) => ok,
    () => false,
  );
  if (isThere) sessionStorage.setItem(lastReload, String(Date.now()));
  return isThere;
}

let turns = 0;

/** Moves the focus to the heading of a new page, so that a screen reader begins there; not at the first one. */
function useFocusOnTurn(about: string, isShown: boolean): void {
  const last = useRef('');
  useEffect(() => {
    if (!isShown || last.current === about) return;
    last.current = about;
    turns += 1;
    if (turns === 1) return;
    scrollTo(0, 0);
    const heading = document.querySelector<HTMLElement>('main h1');
    if (heading === null) {
      document.querySelector<HTMLElement>('main')?.focus();
      return;
    }
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  });
}

function NoPage({ place }: { place: Place }): VNode {
  const href = useHref();
  useEffect(() => {
    document.title = 'No such page · Setpoint';
  }, []);
  return (
    <div class="page">
      <h1>No such page</h1>
      <p>
        Nothing is at <code>{place.path}</code> in the tenant {place.tenant}.{' '}
        <a href={href(['projects'])}>All projects</a>
      </p>
    </div>
  );
}

/** Keeps a defect of one page away from the rest of the console. */
class Boundary extends Component<{ children: ComponentChildren }, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static override getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ComponentChildren {
    if (this.state.error === undefined) return this.props.children;
    return (
      <div class="page">
        <h1>This page has a defect</h1>
        <p class="notice notice-bad" role="alert">
          {messageOf(this.state.error)}
        </p>
        <div>
          <button class="button" onClick={() => location.reload()}>
            Load the console again
          </button>
        </div>
      </div>
    );
  }
}
