import { defined } from '../../store/defined.ts';
import { maxPreviews, maxUnapproved } from '../../store/kinds/preview.ts';
import { composedLack, isUnapproved } from '../../store/preview.ts';
import { isSameRepository } from '../../store/repository-address.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';
import type { Context } from '../runtime/controller.ts';
import { timeBetween } from './states.ts';
import type { Delivery } from './states.ts';

/** Namespace of the ids of previews that follow from a request (UUIDv5). */
const namespace = '6d0b7a52-7e07-4a39-8d8e-1f6f2f8b6c40';

type Webhook = ReadonlyResource<'git_webhook'>;
type Preview = ReadonlyResource<'preview'>;
type Request = NonNullable<Delivery['desired']['request']>;

/** What became of the previews that a delivery is about; `said: undefined`: it is about none. */
export type Outcome =
  | { said: string | undefined }
  /** The one before is still being removed. */
  | { waitsFor: Preview };

/**
 * Makes, changes or ends the previews that a delivery is about. They are those of its request, whoever made them. The id of a
 * new one follows from webhook and number, so that a repetition after a crash finds it.
 */
export async function previewsOf(
  it: Delivery,
  webhook: Webhook,
  { isOvertaken, isPatient }: { isOvertaken: boolean; isPatient: boolean },
  ctx: Context,
): Promise<Outcome> {
  const { request } = it.desired;
  if (request === undefined) return { said: await endOfBranches(it, webhook, ctx) };
  const known = knownOf(request, webhook, ctx);
  if (isOvertaken || known.some((one) => isBefore(request, one)))
    return { said: 'A later event of the request is decided instead' };
  if (request.action === 'close') {
    for (const { meta } of known) await ctx.retire('preview', meta.id);
    return { said: 'The request is closed, so that it has no preview any more' };
  }
  const there = known.filter(isStaying);
  const [first] = there;
  if (first !== undefined) {
    for (const one of there) await follow(it, one, ctx);
    return { said: saidOf(it, first, webhook) };
  }
  const [leaving] = known;
  if (leaving === undefined) return { said: await open(it, webhook, request, ctx) };
  if (isPatient) return { waitsFor: leaving };
  return { said: `Preview ${leaving.desired.name} was not removed within a day: replay the delivery when it is gone` };
}

/** The previews of a request, also those that are being removed. */
function knownOf({ number }: Request, { desired }: Webhook, { view }: Context): Preview[] {
  return view
    .by('preview', 'project', desired.project_id)
    .filter(
      ({ desired: of }) => of.request_number === number && isSameRepository(of.repository_url, desired.repository_url),
    );
}

/** Whether the preview knows of a later event, whose delivery may be forgotten. */
function isBefore(request: Request, { desired }: Preview): boolean {
  return timeBetween(request, { updated_at: desired.request_updated_at }) > 0;
}

/** A fork is asked for at another commit by now; a branch is followed by autodeploy. */
async function follow({ desired: { request } }: Delivery, { meta, desired }: Preview, ctx: Context): Promise<void> {
  const { commit, updated_at } = request ?? {};
  await ctx.amend(
    'preview',
    meta.id,
    (draft) => {
      if (desired.fork_url !== undefined && commit !== undefined) draft.commit = commit;
      if (updated_at !== undefined) draft.request_updated_at = updated_at;
    },
    { audited: 'controller delivery' },
  );
}

/** It does not show whether the preview was made by an earlier run of the same delivery. */
function saidOf(it: Delivery, { desired }: Preview, webhook: Webhook): string {
  const { name, fork_url: fork, approved_commit: approved, expires_at } = desired;
  const commit = it.desired.request?.commit;
  if (expires_at === expiryOf(it, webhook)) return saidOfNew(name, fork !== undefined);
  if (fork === undefined || commit === undefined || commit === approved) return `Preview ${name} is there already`;
  return `Preview ${name} waits for an approval of commit ${commit.slice(0, 12)}`;
}

function saidOfNew(name: string, isFork: boolean): string {
  return isFork ? `Preview ${name} waits for an approval, as the request is of a fork` : `Preview ${name} is made`;
}

function expiryOf({ desired }: Delivery, webhook: Webhook): string | undefined {
  const { ttl_seconds: life } = webhook.desired.previews ?? {};
  return life === undefined ? undefined : new Date(Date.parse(desired.received_at) + life * 1000).toISOString();
}

async function open(it: Delivery, webhook: Webhook, request: Request, ctx: Context): Promise<string> {
  const { previews: settings, project_id: project, repository_url: url } = webhook.desired;
  const expires_at = expiryOf(it, webhook);
  if (settings === undefined || expires_at === undefined) return 'The webhook makes no previews';
  const { source_url: from, commit } = request;
  if (from === undefined) return 'The repository of the request is not there any more: no preview is made';
  const isFork = !isSameRepository(from, url);
  if (isFork && commit === undefined)
    return 'The git host does not say which commit of the fork it is: no preview is made';
  const source = ctx.view.get('environment', settings.environment_id);
  const of = ctx.view.get('project', project);
  if (!isStaying(source) || !isStaying(of)) return 'The environment that previews copy was deleted: no preview is made';
  const all = ctx.view.by('preview', 'project', project);
  const lack = composedLack(ctx.view, source.meta.id) ?? roomLack(all, isFork);
  if (lack !== undefined) return lack;
  const name = `pr-${request.number}`;
  const isTaken = [...all, ...ctx.view.by('environment', 'project', project)].some(
    ({ desired }) => desired.name === name,
  );
  if (isTaken) return `A preview or an environment of the project is called ${name} already: no preview is made`;
  await ctx.transact(
    (unit) => {
      unit.require(webhook);
      unit.require(of);
      unit.require(source);
      unit.create('preview', uuidv5(namespace, `${webhook.meta.id} ${request.number}`), {
        project_id: project,
        name,
        source_environment_id: source.meta.id,
        repository_url: url,
        branch: request.branch,
        request_number: request.number,
        ...defined({
          request_updated_at: request.updated_at,
          fork_url: isFork ? from : undefined,
          commit: isFork ? commit : undefined,
        }),
        expires_at,
      });
    },
    { audited: 'controller delivery' },
  );
  return saidOfNew(name, isFork);
}

/** Forks are counted apart until a first approval: strangers open their requests, and fill no room of others. */
function roomLack(all: readonly Preview[], isFork: boolean): string | undefined {
  const count = all.filter((it) => isUnapproved(it) === isFork).length;
  if (isFork)
    return count < maxUnapproved
      ? undefined
      : `In the project ${count} previews of forks wait for an approval already: approve or delete one`;
  return count < maxPreviews ? undefined : `The project has ${count} previews already: delete one that is not needed`;
}

/** Ends the previews of branches that were deleted. */
async function endOfBranches({ desired }: Delivery, webhook: Webhook, ctx: Context): Promise<string | undefined> {
  const gone = new Set(
    desired.pushes.flatMap(({ ref, deleted }) =>
      deleted === true && ref.startsWith('refs/heads/') ? [ref.slice('refs/heads/'.length)] : [],
    ),
  );
  const { project_id: project, repository_url: url } = webhook.desired;
  const ended = ctx.view
    .by('preview', 'project', project)
    .filter(
      ({ desired: it }) => it.fork_url === undefined && gone.has(it.branch) && isSameRepository(it.repository_url, url),
    );
  for (const { meta } of ended) await ctx.retire('preview', meta.id);
  if (ended.length === 0) return undefined;
  return `Removed with the branch: ${ended.map(({ desired: it }) => it.name).join(', ')}`;
}
