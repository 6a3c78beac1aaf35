import type { VNode } from 'preact';
import {
  Activity,
  Archive,
  Boxes,
  Database,
  FolderKanban,
  FolderGit2,
  LayoutTemplate,
  ScrollText,
  Server,
  Settings,
  SquareFunction,
} from 'lucide-static';
import { byName } from '../model.ts';
import { pages } from '../pages/pages.ts';
import type { PageDescriptor } from '../pages/page.ts';
import { allProjects } from './collections.ts';
import { useConsole, useHref, useList } from './context.ts';
import { Icon } from './icon.tsx';
import { pageAt } from './router.ts';

interface RailPlace {
  readonly place: PageDescriptor['place'];
  readonly path: string;
  readonly word: string;
  readonly icon: string;
}

/** The places of a tenant; one is shown once it has a page. */
const places: readonly RailPlace[] = [
  { place: 'projects', path: 'projects', word: 'Projects', icon: FolderKanban },
  { place: 'databases', path: 'databases', word: 'Databases', icon: Database },
  { place: 'functions', path: 'functions', word: 'Functions', icon: SquareFunction },
  { place: 'volumes', path: 'volumes', word: 'Volumes', icon: Boxes },
  { place: 'backups', path: 'backups', word: 'Backups', icon: Archive },
  { place: 'templates', path: 'templates', word: 'Templates', icon: LayoutTemplate },
  { place: 'syncs', path: 'syncs', word: 'Syncs', icon: FolderGit2 },
  { place: 'logs', path: 'logs', word: 'Logs', icon: ScrollText },
  { place: 'servers', path: 'servers', word: 'Servers', icon: Server },
  { place: 'activity', path: 'activity', word: 'Activity', icon: Activity },
  { place: 'settings', path: 'settings', word: 'Settings', icon: Settings },
];
/** Projects that are named below their place; all of them are on its page. */
const namedProjects = 12;

interface RailProps {
  readonly current: PageDescriptor['place'];
  readonly projectId: string | undefined;
}

export function Rail({ current, projectId }: RailProps): VNode {
  const href = useHref();
  return (
    <ul class="rail-places">
      {places
        .filter(({ path }) => pageAt(pages, `/${path}`) !== undefined)
        .map(({ place, path, word, icon }) => (
          <li key={place}>
            <a
              class="rail-place"
              href={href([path])}
              aria-current={place === current ? (projectId === undefined ? 'page' : 'true') : undefined}
            >
              <Icon of={icon} />
              {word}
            </a>
            {place === 'projects' && <RailProjects current={projectId} />}
          </li>
        ))}
    </ul>
  );
}

function RailProjects({ current }: { current: string | undefined }): VNode | null {
  const { store } = useConsole();
  const href = useHref();
  const projects = byName(useList(allProjects, 'project').objects);
  const shown = projects.slice(0, namedProjects);
  const other = current === undefined ? undefined : store.get('project', current);
  if (other !== undefined && !shown.includes(other)) shown.push(other);
  if (shown.length === 0) return null;
  return (
    <ul class="rail-projects">
      {shown.map((one) => (
        <li key={one.id}>
          <a href={href(['projects', one.id])} aria-current={one.id === current ? 'page' : undefined}>
            {one.display_name ?? one.name}
          </a>
        </li>
      ))}
    </ul>
  );
}
