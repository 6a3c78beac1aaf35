import type { VNode } from 'preact';
import { useHref } from '../../frame/context.ts';
import type { PageProps } from '../page.ts';
import { Page } from '../../parts/page.tsx';
import { Profile } from './profile.tsx';
import { ServiceKeys } from './service-keys.tsx';
import { Sessions } from './sessions.tsx';
import { TwoFactor } from './two-factor.tsx';

const parts = [
  { id: 'profile', label: 'You', Part: Profile },
  { id: 'keys', label: 'Service keys', Part: ServiceKeys },
  { id: 'sessions', label: 'Sessions', Part: Sessions },
  { id: 'two-factor', label: 'Two factors', Part: TwoFactor },
] as const;

/** The reader's own account. */
export function AccountPage({ params }: PageProps): VNode {
  const href = useHref();
  const current = parts.find(({ id }) => id === params['part']) ?? parts[0];
  const at = (id: string): string => href(id === 'profile' ? ['account'] : ['account', id]);
  return (
    <Page title="Account" tabs={parts.map(({ id, label }) => ({ href: at(id), label }))} current={at(current.id)}>
      <current.Part />
    </Page>
  );
}
