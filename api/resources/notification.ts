import { z } from 'zod';
import { Severity } from '../../store/kinds/operation.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { defineResource } from './resource.ts';

export const Notification = z
  .object({
    id: z.string(),
    kind: z.string(),
    severity: Severity,
    title: z.string(),
    message: z.string(),
    resource: z
      .object({ kind: z.string(), id: z.string(), name: z.string(), project_id: z.string().nullable() })
      .nullable(),
    created_at: z.string(),
    read: z.boolean(),
  })
  .meta({ id: 'Notification' });
export type Notification = z.infer<typeof Notification>;

function toNotification({ meta, desired }: ReadonlyResource<'notification'>): Notification {
  const { resource } = desired;
  return {
    id: meta.id,
    kind: desired.type,
    severity: desired.severity,
    title: desired.title,
    message: desired.message,
    resource: resource === undefined ? null : { ...resource, project_id: resource.project_id ?? null },
    created_at: meta.createdAt,
    read: desired.read,
  };
}

export const notifications = defineResource({
  kind: 'notification',
  word: 'Notification',
  project: 'tenant',
  answer: Notification,
  show: toNotification,
  list: {
    texts: ({ desired }) => [desired.title, desired.message],
    filters: { projectId: (id) => (it) => it.desired.resource?.project_id === id },
  },
  verbs: { none: 'A notification is read or unread, and either may be set again' },
  watch: { never: 'It has a stream of its own, /ws/notifications' },
});
