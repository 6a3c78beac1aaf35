import { z } from 'zod';
import { goingOf } from '../../../store/new-drill.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { applicationsReferringTo, functionsReferringTo } from '../../../store/referring.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { conflicting } from '../../ground/api-error.ts';
import { Database, databases, PasswordRotation } from '../../resources/database.ts';
import { Linked, linkTo } from '../../resources/linked.ts';
import { changePassword } from '../../workloads/new-database.ts';
import { endDrills } from '../../workloads/restoring.ts';

type It = ReadonlyResource<'database'>;

const Rotated = Database.extend({
  applications: z.array(Linked).meta({
    description: 'Their variables refer to the database: they have the former password until they are deployed',
  }),
  functions: z.array(Linked).meta({ description: 'As applications: those whose variables refer to the database' }),
}).meta({ id: 'DatabasePasswordRotation' });

const { settle } = databases;

export const rotateDatabasePassword = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/rotate-password',
  summary: 'Give a database another password: it ends all connections, and starts again on the same data',
  on: ['database', 'id'],
  heavy: true,
  body: PasswordRotation,
  response: Rotated,
  settle: settle && {
    isSettled: (view, id) => settle.isSettled(view, id),
    answer({ view, keep }, id) {
      const it = view.get('database', id);
      if (it === undefined) return undefined;
      const answer = answerOf(it, view);
      return keep(it, `rotated ${JSON.stringify([answer.applications, answer.functions])}`, () => answer);
    },
  },
  handle: async (ctx, { it, body }) => {
    requireRotatable(ctx.view, it);
    const unit = ctx.repo.begin();
    // a trial of a backup is begun with the former password
    endDrills(unit, ctx.view, { id: it.meta.id, server: it.desired.server_id });
    const next = unit.change(it, (draft) => changePassword(ctx, it, draft, body.password ?? undefined));
    return ctx.commit(unit, () => answerOf(next, ctx.view));
  },
});

function answerOf(it: It, view: TenantView): z.infer<typeof Rotated> {
  return {
    ...databases.answerOf(it, view),
    applications: applicationsReferringTo(view, it).map(linkTo),
    functions: functionsReferringTo(view, it).map(linkTo),
  };
}

/** @throws ApiError CONFLICT while a volume of the database is made with the password that it has */
function requireRotatable(view: TenantView, { meta, observed }: It): void {
  if (observed?.initialised !== true)
    throw conflicting('The database has not been ready yet: change its password once it was');
  const { restore } = goingOf(view, meta.id);
  if (restore !== undefined)
    throw conflicting(`Restore ${restore.meta.id} of the database has not ended: wait for it, or cancel it`);
}
