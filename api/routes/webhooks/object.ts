import type { z } from 'zod';
import { defined } from '../../../store/defined.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import type { Unit } from '../../../store/unit-of-work.ts';
import { assign } from '../../resources/object-fields.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { GitWebhookCreate, gitWebhooks, GitWebhookUpdate, NewGitWebhook } from '../../resources/git-webhook.ts';
import { sealSecret, secretFrom } from '../../webhooks/secret.ts';
import { referred, referredEnvironment } from '../../workloads/references.ts';
import { getEndpoint, listEndpoint, updateEndpoint } from '../resource-endpoints.ts';

export const listGitWebhooks = listEndpoint(gitWebhooks, {
  path: '/webhooks/git',
  summary: 'Webhooks of git hosts that one may see, without their secrets',
});

export const getGitWebhook = getEndpoint(gitWebhooks, {
  path: '/webhooks/git/:id',
  summary: 'A webhook of a git host',
});

export const createGitWebhook = defineEndpoint({
  method: 'POST',
  path: '/webhooks/git',
  summary: 'Create an address that a git host calls at each push to a repository; its secret is in this answer only',
  projectFrom: 'body.project_id',
  body: GitWebhookCreate,
  response: NewGitWebhook,
  status: 201,
  handle: async (ctx, { body }) => {
    const { labels, secret: sent, previews, ...fields } = body;
    const project = referred(ctx.view, 'project', fields.project_id, 'project_id');
    requireRoom(ctx.view.by('git_webhook', 'project', project.meta.id).length, countLimits.webhooksPerProject, {
      where: 'The project',
      what: 'webhooks',
      remedy: 'delete one that no git host calls',
    });
    const id = ctx.random.id();
    const secret = secretFrom(ctx, sent);
    const unit = ctx.repo.begin();
    unit.require(project);
    const settings = settingsOf(ctx, unit, project, previews);
    const desired = {
      ...fields,
      ...defined({ previews: settings }),
      project_id: project.meta.id,
      secret: sealSecret(ctx, id, secret),
    };
    const it = unit.create('git_webhook', id, desired, defined({ labels }));
    return ctx.commit(unit, () => ({ ...shown(ctx, it), secret }));
  },
});

/** What previews are copies of: an environment of the project. */
function settingsOf(
  { view }: RequestContext,
  unit: Unit,
  project: ReadonlyResource<'project'>,
  previews: z.output<typeof GitWebhookUpdate>['previews'],
): DesiredOf<'git_webhook'>['previews'] {
  if (previews === undefined || previews === null) return undefined;
  unit.require(referredEnvironment(view, previews.environment_id, project));
  return previews;
}

function shown(ctx: RequestContext, it: ReadonlyResource<'git_webhook'>) {
  const answer = gitWebhooks.answerOf(it, ctx.view);
  return { ...answer, url: ctx.config.publicUrl.replace(/\/$/, '') + answer.path };
}

export const updateGitWebhook = updateEndpoint(
  gitWebhooks,
  { path: '/webhooks/git/:id', summary: 'Change a webhook; secret replaces its secret' },
  {
    body: GitWebhookUpdate,
    async check(ctx, unit, { it, body: { provider, repository_url: url, secret, previews } }) {
      const project = referred(ctx.view, 'project', it.desired.project_id, 'project_id');
      const settings = settingsOf(ctx, unit, project, previews);
      unit.change(it, (draft) => {
        draft.provider = provider ?? draft.provider;
        draft.repository_url = url ?? draft.repository_url;
        assign(draft, 'previews', previews === null ? null : settings);
        if (secret !== undefined) draft.secret = sealSecret(ctx, it.meta.id, secret);
      });
    },
  },
);

export const deleteGitWebhook = defineEndpoint({
  method: 'DELETE',
  path: '/webhooks/git/:id',
  summary: 'Delete a webhook with its deliveries: calls of its address are refused',
  on: ['git_webhook', 'id'],
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});
