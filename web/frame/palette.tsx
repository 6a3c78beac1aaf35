import type { VNode } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { page } from '../api.ts';
import type { Application } from '../model.ts';
import { byName } from '../model.ts';
import { pages } from '../pages/pages.ts';
import { useVerb } from './application-verbs.ts';
import {
  allApplications,
  allDatabases,
  allFunctions,
  allProjects,
  allServers,
  allSyncs,
  allTemplates,
} from './collections.ts';
import { useConsole, useHref, useList } from './context.ts';
import { entriesFor } from './palette-entries.ts';
import type { Entry } from './palette-entries.ts';
import { pageAt } from './router.ts';

const askAfterMs = 150;
const places = [
  { word: 'Projects', path: 'projects' },
  { word: 'Databases', path: 'databases' },
  { word: 'Functions', path: 'functions' },
  { word: 'Backups', path: 'backups' },
  { word: 'Templates', path: 'templates' },
  { word: 'Syncs', path: 'syncs' },
  { word: 'Logs', path: 'logs' },
  { word: 'Servers', path: 'servers' },
  { word: 'Volumes', path: 'volumes' },
  { word: 'Activity', path: 'activity' },
  { word: 'Settings', path: 'settings' },
  { word: 'Account', path: 'account' },
];

/** Search over everything, which also does things: 'deploy hello', 'logs db'. */
export function Palette({ onClose }: { onClose: () => void }): VNode {
  const it = useConsole();
  const href = useHref();
  const doVerb = useVerb();
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const isTaken = useRef(false);
  const [typed, setTyped] = useState('');
  const [active, setActive] = useState(0);
  const found = useFound(typed);
  // before the next key: what is typed at once is of the search
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const entries = entriesFor(typed, {
    projects: byName(useList(allProjects, 'project').objects),
    environments: it.store.all('environment'),
    applications: [
      ...new Map([...useList(allApplications, 'application').objects, ...found].map((one) => [one.id, one])).values(),
    ],
    databases: byName(useList(allDatabases, 'database').objects),
    functions: byName(useList(allFunctions, 'function').objects),
    templates: byName(useList(allTemplates, 'template').objects),
    syncs: byName(useList(allSyncs, 'sync').objects),
    servers: byName(useList(allServers, 'server').objects),
    places: places.filter(({ path }) => pageAt(pages, `/${path}`) !== undefined),
    rankIn: (projectId) => it.rights.rankIn(projectId),
  });
  const current = Math.min(active, Math.max(0, entries.length - 1));

  const take = (entry: Entry | undefined): void => {
    if (entry === undefined || entry.why !== undefined) return;
    isTaken.current = true;
    dialog.current?.close();
    onClose();
    if ('go' in entry.does) it.router.go(href(entry.does.go));
    else void doVerb(entry.does.verb, entry.does.application);
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0 && entries.length > 0) setActive((current + step + entries.length) % entries.length);
    else if (event.key === 'Enter') take(entries[current]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Search or do"
      onClose={() => {
        // it comes later, when the palette may be open anew
        if (!isTaken.current) onClose();
      }}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <input
        class="palette-input"
        role="combobox"
        aria-label="Search or do"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={entries[current] === undefined ? undefined : `${id}-${current}`}
        placeholder="A name, or what to do: deploy hello"
        autofocus
        autocomplete="off"
        value={typed}
        onInput={({ currentTarget }) => {
          setTyped(currentTarget.value);
          setActive(0);
        }}
        onKeyDown={onKey}
      />
      <ul class="palette-list" role="listbox" id={`${id}-list`} aria-label="Found">
        {entries.map((entry, index) => (
          <li
            key={entry.id}
            id={`${id}-${index}`}
            role="option"
            class="palette-entry"
            aria-selected={index === current}
            aria-disabled={entry.why !== undefined}
            onPointerMove={() => setActive(index)}
            onClick={() => take(entry)}
          >
            <span class="grow truncate">{entry.text}</span>
            <span class="quiet small truncate">{entry.why ?? entry.about}</span>
          </li>
        ))}
      </ul>
      {entries.length === 0 && (
        <p class="palette-empty quiet" role="status">
          Nothing is called “{typed}”.
        </p>
      )}
    </dialog>
  );
}

/** Applications that the server finds, where there are more than this tab knows of. */
function useFound(typed: string): readonly Application[] {
  const { login } = useConsole();
  const [found, setFound] = useState<readonly Application[]>([]);
  const asked = typed.trim().split(/\s+/).at(-1) ?? '';
  useEffect(() => {
    setFound([]);
    if (asked.length < 2) return;
    let isCurrent = true;
    const timer = setTimeout(() => {
      page(login, '/api/v1/applications', { query: { q: asked, limit: 20 } }).then(
        ({ items }) => isCurrent && setFound(items),
        () => undefined, // what is known already is shown
      );
    }, askAfterMs);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [asked]);
  return found;
}
