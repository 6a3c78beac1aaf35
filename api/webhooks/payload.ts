import { z } from 'zod';
import { maxPushedRefs } from '../../store/kinds/git-webhook.ts';
import type { AnnouncedRequest, PushedRef, WebhookProvider } from '../../store/kinds/git-webhook.ts';
import { requestOf } from './request.ts';
import type { Call } from './signature.ts';

/** What a call of a git host announces. */
export interface Announced {
  /** The event in the words of the git host. */
  event: string;
  what: 'push' | 'ping' | 'other' | 'unreadable';
  /** Addresses of the repository. */
  repositories: string[];
  /** The first ones, if more are announced than are kept. */
  pushes: PushedRef[];
  /** Present: what was done to a pull request or merge request; `what` is `other`. */
  request?: AnnouncedRequest | undefined;
}

const Text = z.string().max(512).nullish();
const Urls = z.looseObject({
  clone_url: Text,
  ssh_url: Text,
  git_url: Text,
  html_url: Text,
  url: Text,
  git_http_url: Text,
  git_ssh_url: Text,
  http_url: Text,
  web_url: Text,
  homepage: Text,
});
const Commit = z
  .string()
  .regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/)
  .nullish();

/** GitHub, Gitea, Forgejo and GitLab. */
const Push = z.looseObject({
  ref: z.string().max(512),
  before: Commit,
  after: Commit,
  deleted: z.boolean().nullish(),
  repository: Urls.nullish(),
  project: Urls.nullish(),
});

const Target = z.looseObject({
  type: z.string().max(50).nullish(),
  name: z.string().max(512),
  target: z.looseObject({ hash: Commit }).nullish(),
});
const Links = z.looseObject({
  html: z.looseObject({ href: Text }).nullish(),
  clone: z
    .array(z.looseObject({ href: Text }))
    .max(10)
    .nullish(),
});
const BitbucketCloud = z.looseObject({
  repository: z.looseObject({ links: Links.nullish() }),
  push: z.looseObject({
    changes: z.array(z.looseObject({ old: Target.nullish(), new: Target.nullish() })),
  }),
});
const BitbucketServer = z.looseObject({
  repository: z.looseObject({ links: Links.nullish() }),
  changes: z.array(
    z.looseObject({ ref: z.looseObject({ id: z.string().max(512) }), type: Text, fromHash: Commit, toHash: Commit }),
  ),
});

const Generic = z.object({
  event: z.enum(['push', 'request', 'ping']).default('push'),
  repository_url: z.string().max(512).optional(),
  ref: z.string().max(512).optional(),
  before: Commit,
  commit: Commit,
  /** The reference is not there any more. */
  deleted: z.boolean().nullish(),
});

/** Reads what the body of a call announces. Its signature was verified; its content may still be anything. */
export function announced(provider: WebhookProvider, call: Call): Announced {
  const event = eventOf(provider, call);
  const nothing = { event, repositories: [], pushes: [] };
  const body = bodyOf(call);
  if (body === undefined) return { ...nothing, what: 'unreadable' };
  if (provider === 'generic') return fromGeneric(body);
  if (event === 'ping' || event === 'diagnostics:ping') return { ...nothing, what: 'ping' };
  const asked = requestOf(provider, event, body);
  if (asked !== undefined) return { event, what: 'other', pushes: [], ...asked };
  const found = read(provider, event, body);
  if (found === 'other') return { ...nothing, what: 'other' };
  if (found === undefined) return { ...nothing, what: 'unreadable' };
  const { repositories, pushes } = found;
  return {
    event,
    what: 'push',
    repositories: [...new Set(repositories.filter((it) => typeof it === 'string'))].slice(0, 20),
    pushes: pushes.slice(0, maxPushedRefs),
  };
}

type Found = { repositories: (string | null | undefined)[]; pushes: PushedRef[] } | 'other' | undefined;

function read(provider: Exclude<WebhookProvider, 'generic'>, event: string, body: unknown): Found {
  switch (provider) {
    case 'github':
    case 'gitea':
      return event === 'push' ? fromPush(body) : 'other';
    case 'gitlab':
      return event === 'Push Hook' || event === 'Tag Push Hook' ? fromPush(body) : 'other';
    case 'bitbucket':
      if (event === 'repo:push') return fromBitbucketCloud(body);
      return event === 'repo:refs_changed' ? fromBitbucketServer(body) : 'other';
  }
}

function fromPush(body: unknown): Found {
  const { data } = Push.safeParse(body);
  if (data === undefined) return undefined;
  const urls = [data.repository, data.project].flatMap((it) => (it === null || it === undefined ? [] : [it]));
  return {
    repositories: urls.flatMap((it) => Object.keys(Urls.shape).map((name) => Text.safeParse(it[name]).data)),
    pushes: [pushed(data.ref, data.before, data.deleted === true ? undefined : data.after)],
  };
}

function fromBitbucketCloud(body: unknown): Found {
  const { data } = BitbucketCloud.safeParse(body);
  if (data === undefined) return undefined;
  const pushes = data.push.changes.flatMap(({ old, new: next }) => {
    const it = next ?? old;
    if (it === null || it === undefined) return [];
    const kind = it.type === 'branch' ? 'heads' : it.type === 'tag' ? 'tags' : 'others';
    return [pushed(`refs/${kind}/${it.name}`.slice(0, 512), old?.target?.hash, next?.target?.hash)];
  });
  return { repositories: linked(data.repository.links), pushes };
}

function fromBitbucketServer(body: unknown): Found {
  const { data } = BitbucketServer.safeParse(body);
  if (data === undefined) return undefined;
  const pushes = data.changes.map(({ ref, type, fromHash, toHash }) =>
    pushed(ref.id, fromHash, type === 'DELETE' ? undefined : toHash),
  );
  return { repositories: linked(data.repository.links), pushes };
}

function linked(links: z.infer<typeof Links> | null | undefined): (string | null | undefined)[] {
  return [links?.html?.href, ...(links?.clone ?? []).map(({ href }) => href)];
}

function fromGeneric(body: unknown): Announced {
  const { data } = Generic.safeParse(body);
  const nothing = { repositories: [], pushes: [] };
  if (data === undefined) return { ...nothing, event: 'unknown', what: 'unreadable' };
  const { event, repository_url: url, ref, before, commit, deleted } = data;
  if (event === 'ping') return { ...nothing, event, what: 'ping' };
  if (event === 'request') {
    const asked = requestOf('generic', event, body);
    return asked === undefined
      ? { ...nothing, event, what: 'unreadable' }
      : { event, what: 'other', pushes: [], ...asked };
  }
  if (url === undefined || ref === undefined) return { ...nothing, event, what: 'unreadable' };
  // a program that knows no commit says only that there was a push
  const now = deleted === true ? { deleted } : typeof commit === 'string' ? { commit } : {};
  const push = { ref, ...now, ...(typeof before === 'string' && { before }) };
  return { event, what: 'push', repositories: [url], pushes: [push] };
}

/** A git host writes zeros for a commit that is not there. */
function pushed(ref: string, before: string | null | undefined, after: string | null | undefined): PushedRef {
  const known = (it: string | null | undefined): it is string => typeof it === 'string' && !/^0+$/.test(it);
  return { ref, ...(known(after) ? { commit: after } : { deleted: true as const }), ...(known(before) && { before }) };
}

const eventHeaders: Readonly<Record<WebhookProvider, readonly string[]>> = {
  github: ['x-github-event'],
  gitea: ['x-gitea-event', 'x-forgejo-event'],
  gitlab: ['x-gitlab-event'],
  bitbucket: ['x-event-key'],
  generic: [],
};

function eventOf(provider: WebhookProvider, { headers }: Call): string {
  const [value] = eventHeaders[provider].flatMap((name) => headers[name] ?? []);
  return value === undefined || !/^[\w :.-]{1,100}$/.test(value) ? 'unknown' : value;
}

/** The JSON of a body, or of the form in which GitHub sends it by default. */
function bodyOf({ bytes, headers }: Call): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const isForm = /^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? '');
    return JSON.parse(isForm ? (new URLSearchParams(text).get('payload') ?? '') : text);
  } catch {
    return undefined;
  }
}
