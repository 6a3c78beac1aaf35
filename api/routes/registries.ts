import { defined } from '../../store/defined.ts';
import { settingsOf } from '../../store/settings.ts';
import { badField } from '../ground/api-error.ts';
import type { RegistryLogin } from '../ground/registry-login.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { assign, given } from '../resources/object-fields.ts';
import { registries, Registry, RegistryCreate, RegistryTest, RegistryUpdate } from '../resources/registry.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { grantedTo } from '../rights/grants.ts';
import { allowedFrom } from '../workloads/allowed-projects.ts';
import { registryPassword } from '../workloads/registry-password.ts';
import { requireUnused } from '../workloads/used-by.ts';
import { getEndpoint, listEndpoint, updateEndpoint } from './resource-endpoints.ts';

export const listRegistries = listEndpoint(
  registries,
  {
    path: '/settings/registries',
    summary: 'What images of private registries are pulled with; users of projects see name and address',
  },
  (ctx) => grantedTo(ctx, ctx.view.list('registry')),
);

export const getRegistry = getEndpoint(registries, {
  path: '/settings/registries/:id',
  summary: 'A registry, and the applications that use it',
});

export const createRegistry = defineEndpoint({
  method: 'POST',
  path: '/settings/registries',
  summary: 'Keep what images of a registry are pulled with, once a login with it has succeeded',
  body: RegistryCreate,
  response: Registry,
  status: 201,
  heavy: true,
  handle: async (ctx, { body }) => {
    requireRoom(ctx.view.list('registry').length, countLimits.registriesPerTenant, {
      where: 'The tenant',
      what: 'registries',
      remedy: 'delete one that no application uses',
    });
    const { name, address, username, password } = body;
    if (body.untested !== true) await requireLogin(ctx, { address, username, password });
    const id = ctx.random.id();
    const unit = ctx.repo.begin();
    const it = unit.create(
      'registry',
      id,
      {
        name,
        ...given({ description: body.description }),
        address,
        username,
        password: sealed(ctx, id, password),
        ...given({ allowed_projects: allowedFrom(ctx.view, body.allowed_projects) }),
      },
      defined({ labels: body.labels }),
    );
    return ctx.commit(unit, () => registries.answerOf(it, ctx.view));
  },
});

export const updateRegistry = updateEndpoint(
  registries,
  {
    path: '/settings/registries/:id',
    summary:
      'Change a registry, also while applications use it: the next pull logs in with it. Another address or user name needs the password anew',
  },
  {
    body: RegistryUpdate,
    heavy: true,
    change(draft, body, { view }) {
      assign(draft, 'description', body.description);
      assign(draft, 'allowed_projects', allowedFrom(view, body.allowed_projects, draft.allowed_projects));
    },
    async check(ctx, unit, { it, body }) {
      const { address = it.desired.address, username = it.desired.username, password } = body;
      const isMoved = address !== it.desired.address;
      if (password === undefined) {
        if (isMoved || username !== it.desired.username)
          throw badField(
            'password',
            'required',
            'password is required with another address or username: it is never sent to a registry unasked',
          );
        return;
      }
      if (isMoved) {
        await requireUnused(ctx, unit, it, 'moved to another address');
      }
      if (body.untested !== true) await requireLogin(ctx, { address, username, password });
      unit.change(it, (draft) =>
        Object.assign(draft, { address, username, password: sealed(ctx, it.meta.id, password) }),
      );
    },
  },
);

export const testRegistry = defineEndpoint({
  method: 'POST',
  path: '/settings/registries/:id/test',
  summary: 'Log in to a registry with what is kept of it, and say what came of it',
  on: ['registry', 'id'],
  response: RegistryTest,
  heavy: true,
  handle: async (ctx, { it }) => {
    const { address, username } = it.desired;
    const result = await login(ctx, { address, username, password: registryPassword(ctx, it) });
    return {
      ok: result.failure === undefined,
      reason: result.failure ?? null,
      message: result.message,
    };
  },
});

export const deleteRegistry = defineEndpoint({
  method: 'DELETE',
  path: '/settings/registries/:id',
  summary: 'Delete a registry that no application uses',
  on: ['registry', 'id'],
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    await requireUnused(ctx, unit, it, 'deleted');
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});

type Context = Pick<RequestContext, 'view' | 'registryLogin' | 'signal'>;

function login(ctx: Context, what: Omit<RegistryLogin, 'allowed'>) {
  return ctx.registryLogin({ ...what, allowed: settingsOf(ctx.view).registries }, ctx.signal());
}

const fieldOf = { wrong_credentials: 'password', not_allowed: 'address', unreachable: 'address' } as const;

/** @throws ApiError BAD_REQUEST with what the login came to */
async function requireLogin(ctx: Context, what: Omit<RegistryLogin, 'allowed'>): Promise<void> {
  const { failure, message } = await login(ctx, what);
  if (failure === undefined) return;
  const hint = failure === 'unreachable' ? '. If only servers reach it, send untested=true' : '';
  throw badField(fieldOf[failure], failure, `${message}${hint}`);
}

function sealed({ sealer, tenant }: Pick<RequestContext, 'sealer' | 'tenant'>, id: string, password: string) {
  return sealer.seal(password, { tenant, kind: 'registry', id, path: 'password' });
}
