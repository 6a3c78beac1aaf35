import { z } from 'zod';
import { utc, UtcTime } from '../../store/kinds/fields.ts';
import { GlobalRole, KeyScope } from '../../store/kinds/identity.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { Line } from './fields.ts';
import { objectFields, objectFieldsOf, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';

export const User = z
  .object({
    ...objectFields,
    email: z.string(),
    first_name: z.string(),
    last_name: z.string(),
    role: GlobalRole,
    must_reset_password: z.boolean(),
    two_factor_enabled: z.boolean(),
    has_password: z.boolean(),
  })
  .meta({ id: 'User' });
export type User = z.infer<typeof User>;

const LoginUser = User.pick({ id: true, email: true, first_name: true, last_name: true, role: true });

/** The answer to a login. */
export const Login = z.object({ token: z.string(), expires_at: z.string(), user: LoginUser }).meta({ id: 'Login' });

export const PersonName = Line.trim().max(100);

/** A user as the admins of the tenant see it. */
export const Account = z
  .object({
    ...User.shape,
    disabled: z.boolean(),
    confined_to: z
      .array(z.string())
      .nullable()
      .meta({ description: 'Projects in which a plain user who came by an invite to one may have rights; null: all' }),
  })
  .meta({ id: 'Account' });
export type Account = z.infer<typeof Account>;

export const AccountUpdate = z
  .strictObject({
    role: GlobalRole,
    disabled: z.boolean(),
    first_name: PersonName,
    last_name: PersonName,
    confined_to: z.array(Reference).max(100).nullable(),
  })
  .partial();

export const users = defineResource({
  kind: 'user',
  word: 'User',
  project: 'tenant',
  answer: Account,
  show: (it) => ({
    ...toUser(it),
    disabled: it.desired.disabled,
    confined_to: it.desired.confined_to === undefined ? null : [...it.desired.confined_to],
  }),
  list: {
    texts: ({ desired }) => [desired.email, desired.first_name, desired.last_name],
    status: { values: ['active', 'disabled'], of: ({ desired }) => (desired.disabled ? 'disabled' : 'active') },
    sorts: { email: ({ desired }) => desired.email, role: ({ desired }) => desired.role },
  },
  verbs: { none: 'Rank decides, not a state' },
  watch: { never: 'Only admins of the tenant see users, and they read the list when they need it' },
});

export const Session = z
  .object({
    id: z.string(),
    current: z.boolean().meta({ description: 'It is the one that asks' }),
    source: z.string().meta({ description: 'Address from which it was opened' }),
    user_agent: z.string(),
    created_at: z.string(),
    expires_at: z.string(),
  })
  .meta({ id: 'Session' });

export const sessions = defineResource({
  kind: 'session',
  word: 'Session',
  project: 'tenant',
  answer: Session,
  /** Which session is the current one depends on the reader: the list of sessions shows it itself. */
  seen: (): Pick<z.infer<typeof Session>, 'current'> => ({ current: false }),
  show: ({ meta, desired: { source, user_agent, expires_at } }, { current }) => ({
    id: meta.id,
    current,
    source,
    user_agent,
    created_at: meta.createdAt,
    expires_at,
  }),
  list: { texts: ({ desired }) => [desired.user_agent] },
  verbs: { none: 'A session has no states' },
  watch: { never: 'Only its user sees it' },
});

export const Email = z
  .email('Must be an e-mail address')
  .max(254)
  .transform((address) => address.trim());

export function toUser(it: ReadonlyResource<'user'>): User {
  const { desired } = it;
  return {
    ...objectFieldsOf(it),
    email: desired.email,
    first_name: desired.first_name,
    last_name: desired.last_name,
    role: desired.role,
    must_reset_password: desired.must_reset_password,
    two_factor_enabled: desired.two_factor_enabled,
    has_password: desired.password_hash !== undefined,
  };
}

export function toLoginUser(user: ReadonlyResource<'user'>): z.infer<typeof LoginUser> {
  const { id, email, first_name, last_name, role } = toUser(user);
  return { id, email, first_name, last_name, role };
}

export const ServiceKey = z
  .object({
    ...objectFields,
    name: z.string(),
    prefix: z.string(),
    scopes: z.array(KeyScope).nullable(),
    project_id: z.string().nullable(),
    expires_at: z.string().nullable(),
    parent_id: z.string().nullable().meta({ description: 'The key that made it, and with which it ends' }),
    last_used_at: z.string().nullable().meta({ description: 'Exact to ten minutes' }),
  })
  .meta({ id: 'ServiceKey' });
export type ServiceKey = z.infer<typeof ServiceKey>;

export const NewServiceKey = z
  .object({ ...ServiceKey.shape, key: z.string().meta({ description: 'Shown in this answer only' }) })
  .meta({ id: 'NewServiceKey' });

export const ServiceKeyCreate = z.strictObject({
  name: Line.trim().min(1).max(100),
  expires_at: UtcTime.nullish(),
  scopes: z.array(KeyScope).min(1).max(4).nullish(),
  project_id: Reference.nullish(),
});

function toServiceKey(it: ReadonlyResource<'service_key'>): ServiceKey {
  const { desired, observed } = it;
  return {
    ...objectFieldsOf(it),
    // it has no controller: what is observed of it is its use
    observed_generation: it.meta.generation,
    name: desired.name,
    prefix: desired.prefix,
    scopes: desired.scopes === undefined ? null : [...desired.scopes],
    project_id: desired.project_id ?? null,
    // earlier releases stored the time as it was sent
    expires_at: desired.expires_at === undefined ? null : utc(desired.expires_at),
    parent_id: desired.parent_id ?? null,
    last_used_at: observed?.last_used_at ?? null,
  };
}

export const serviceKeys = defineResource({
  kind: 'service_key',
  word: 'Service key',
  project: 'tenant',
  answer: ServiceKey,
  show: toServiceKey,
  list: { texts: ({ desired }) => [desired.name] },
  verbs: { none: 'A key has no states' },
  watch: { never: 'Only its user and admins of the tenant see it' },
});
