import type { Tab } from '../../parts/tabs.tsx';

/** The two lists of templates: the catalogue, and what was made of it. */
export function templateTabs(href: (parts: readonly string[]) => string): readonly Tab[] {
  return [
    { href: href(['templates']), label: 'Catalogue' },
    { href: href(['instances']), label: 'Instances' },
  ];
}
