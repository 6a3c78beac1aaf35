import type { Tab } from '../../parts/tabs.tsx';

type Href = (parts: readonly string[]) => string;

/** The parts of a project; `count`: how many environments it has. */
export function projectTabs(href: Href, projectId: string, count?: number): Tab[] {
  return [
    { href: href(['projects', projectId]), label: 'Environments', ...(count !== undefined && { count }) },
    { href: href(['projects', projectId, '-', 'members']), label: 'Members' },
    { href: href(['projects', projectId, '-', 'apply']), label: 'Apply' },
    { href: href(['projects', projectId, '-', 'settings']), label: 'Settings' },
  ];
}
