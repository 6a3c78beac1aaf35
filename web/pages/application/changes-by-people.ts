import type { components } from '../../api-types.d.ts';
import type { TimelineEntry } from '../../parts/timeline.tsx';

type AuditEntry = components['schemas']['AuditEntry'];

/** Changes that people and keys made, as the audit log has them. Reads and refusals are not changes. */
export function changesOf(entries: readonly AuditEntry[]): TimelineEntry[] {
  return entries
    .filter(({ route, result }) => result === 'ok' && !route.startsWith('GET ') && !route.startsWith('WS '))
    .map((one) => ({
      key: `audit ${one.id}`,
      at: one.at,
      shape: 'info',
      title: `${one.email ?? 'A key'}: ${verbOf(one.route)}`,
      detail: isSettings(one.route) ? [...new Set(one.objects.flatMap(({ fields }) => fields))].join(', ') : '',
    }));
}

/** Whether a route changes settings, so that one asks which; other verbs change what follows from them. */
function isSettings(route: string): boolean {
  return route.startsWith('PUT ') || route.startsWith('PATCH ');
}

/** A route in words: `POST /applications/:id/scale` is `scale`. */
function verbOf(route: string): string {
  const [method = '', path = ''] = route.split(' ');
  const last = path.split('/').at(-1) ?? '';
  if (last !== '' && !last.startsWith(':') && path.includes(':')) return last.replaceAll('-', ' ');
  if (method === 'POST') return 'created it';
  return method === 'DELETE' ? 'deleted it' : 'changed its settings';
}
