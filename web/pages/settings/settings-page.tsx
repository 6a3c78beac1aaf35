import type { VNode } from 'preact';
import { useConsole, useHref } from '../../frame/context.ts';
import type { PageProps } from '../page.ts';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Destinations } from './destinations.tsx';
import { GitCredentials } from './git-credentials.tsx';
import { LimitsPart } from './limits.tsx';
import { Registries } from './registries.tsx';
import { SshKeys } from './ssh-keys.tsx';
import { TenantSettings } from './tenant-settings.tsx';
import { Users } from './users.tsx';

const parts = [
  { id: 'tenant', label: 'Tenant', isForAll: true, Part: TenantSettings },
  { id: 'users', label: 'Users', isForAll: false, Part: Users },
  { id: 'registries', label: 'Registries', isForAll: true, Part: Registries },
  { id: 'git-credentials', label: 'Git credentials', isForAll: true, Part: GitCredentials },
  { id: 'ssh-keys', label: 'SSH keys', isForAll: false, Part: SshKeys },
  { id: 'destinations', label: 'Backup destinations', isForAll: false, Part: Destinations },
  { id: 'limits', label: 'Limits', isForAll: true, Part: LimitsPart },
] as const;

/** What holds for the whole tenant, and what it keeps for all projects. */
export function SettingsPage({ params }: PageProps): VNode {
  const { me } = useConsole();
  const href = useHref();
  const isAdmin = me.value !== undefined && me.value.role !== 'user';
  const shown = parts.filter(({ isForAll }) => isForAll || isAdmin);
  const wanted = params['part'] ?? 'tenant';
  const current = shown.find(({ id }) => id === wanted);
  const at = (id: string): string => href(id === 'tenant' ? ['settings'] : ['settings', id]);
  return (
    <Page
      title="Settings"
      tabs={shown.map(({ id, label }) => ({ href: at(id), label }))}
      current={at(current?.id ?? wanted)}
    >
      {current !== undefined && <current.Part />}
      {current === undefined && me.value !== undefined && (
        <Notice shape="info">
          <p>
            {parts.some(({ id }) => id === wanted)
              ? 'This part is for admins of the tenant.'
              : 'There is no such part of the settings.'}
          </p>
        </Notice>
      )}
    </Page>
  );
}
