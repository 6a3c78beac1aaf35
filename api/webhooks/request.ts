import { z } from 'zod';
import { defined } from '../../store/defined.ts';
import { Timestamp } from '../../store/kinds/fields.ts';
import type { AnnouncedRequest, WebhookProvider } from '../../store/kinds/git-webhook.ts';

/** A pull request or merge request as a call announces it, with the addresses of the repository that it is for. */
export interface FoundRequest {
  request: AnnouncedRequest;
  repositories: string[];
}

const Url = z.string().max(512).nullish();
const Time = z.string().max(40).nullish().catch(undefined);
const Branch = z.string().min(1).max(255);
const Links = z.looseObject({
  html: z.looseObject({ href: Url }).nullish(),
  clone: z
    .array(z.looseObject({ href: Url }))
    .max(10)
    .nullish(),
});
const number = z.int().min(1);

/** GitHub, Gitea and Forgejo. */
const Repository = z.looseObject({ clone_url: Url, ssh_url: Url, html_url: Url });
const PullRequest = z.looseObject({
  action: z.string(),
  number,
  pull_request: z.looseObject({
    // the repository of a head may have been deleted
    head: z.looseObject({ ref: Branch, sha: z.string(), repo: Repository.nullish() }),
    updated_at: Time,
  }),
  repository: Repository,
});

const Project = z.looseObject({ git_http_url: Url, git_ssh_url: Url, web_url: Url });
const MergeRequest = z.looseObject({
  object_attributes: z.looseObject({
    iid: number,
    action: z.string().nullish(),
    source_branch: Branch,
    last_commit: z.looseObject({ id: z.string() }).nullish(),
    source: Project.nullish(),
    updated_at: Time,
  }),
  project: Project,
});

const Cloud = z.looseObject({
  pullrequest: z.looseObject({
    id: number,
    updated_on: Time,
    source: z.looseObject({
      branch: z.looseObject({ name: Branch }),
      commit: z.looseObject({ hash: z.string() }).nullish(),
      repository: z.looseObject({ links: Links.nullish() }).nullish(),
    }),
  }),
  repository: z.looseObject({ links: Links.nullish() }),
});

const ServerRepository = z.looseObject({ links: Links.nullish() });
const DataCenter = z.looseObject({
  date: Time,
  pullRequest: z.looseObject({
    id: number,
    fromRef: z.looseObject({ id: Branch, latestCommit: z.string().nullish(), repository: ServerRepository }),
    toRef: z.looseObject({ repository: ServerRepository }),
  }),
});

/** The form of any program that can sign. */
const GenericRequest = z.looseObject({
  action: z.enum(['opened', 'updated', 'closed']),
  number,
  branch: Branch,
  commit: z.string().nullish(),
  repository_url: z.string().max(512),
  /** Of the repository with the branch; absent: it is the one that the request is for. */
  source_url: Url,
  updated_at: Time,
});

const opens: ReadonlySet<string> = new Set([
  'opened',
  'reopened',
  'synchronize',
  'synchronized',
  'open',
  'reopen',
  'update',
]);
const closes: ReadonlySet<string> = new Set(['closed', 'close', 'merge']);
const bitbucketActions: Readonly<Record<string, AnnouncedRequest['action']>> = {
  'pullrequest:created': 'open',
  'pullrequest:updated': 'open',
  'pullrequest:fulfilled': 'close',
  'pullrequest:rejected': 'close',
  'pr:opened': 'open',
  'pr:from_ref_updated': 'open',
  'pr:merged': 'close',
  'pr:declined': 'close',
  'pr:deleted': 'close',
};

/** Reads the event of a request; `undefined`: it is none, or nothing follows from what was done to it. */
export function requestOf(provider: WebhookProvider, event: string, body: unknown): FoundRequest | undefined {
  switch (provider) {
    case 'github':
    case 'gitea':
      return event === 'pull_request' || event === 'pull_request_sync' ? fromPullRequest(body) : undefined;
    case 'gitlab':
      return event === 'Merge Request Hook' ? fromMergeRequest(body) : undefined;
    case 'bitbucket': {
      const action = bitbucketActions[event];
      if (action === undefined) return undefined;
      return event.startsWith('pr:') ? fromDataCenter(action, body) : fromCloud(action, body);
    }
    case 'generic':
      return event === 'request' ? fromGenericRequest(body) : undefined;
  }
}

function fromPullRequest(body: unknown): FoundRequest | undefined {
  const { data } = PullRequest.safeParse(body);
  const action = data && actionOf(data.action);
  if (data === undefined || action === undefined) return undefined;
  const { head, updated_at } = data.pull_request;
  const { clone_url, ssh_url, html_url } = data.repository;
  return found({
    action,
    number: data.number,
    branch: head.ref,
    commit: head.sha,
    sources: [head.repo?.clone_url],
    targets: [clone_url, ssh_url, html_url],
    updated_at,
  });
}

function fromMergeRequest(body: unknown): FoundRequest | undefined {
  const { data } = MergeRequest.safeParse(body);
  const action = data && actionOf(data.object_attributes.action ?? '');
  if (data === undefined || action === undefined) return undefined;
  const { iid, source_branch, last_commit, source, updated_at } = data.object_attributes;
  const { git_http_url, git_ssh_url, web_url } = data.project;
  return found({
    action,
    number: iid,
    branch: source_branch,
    commit: last_commit?.id,
    sources: [source?.git_http_url],
    targets: [git_http_url, git_ssh_url, web_url],
    updated_at,
  });
}

function fromCloud(action: AnnouncedRequest['action'], body: unknown): FoundRequest | undefined {
  const { data } = Cloud.safeParse(body);
  if (data === undefined) return undefined;
  const { id, source, updated_on } = data.pullrequest;
  return found({
    action,
    number: id,
    branch: source.branch.name,
    commit: source.commit?.hash,
    sources: linked(source.repository?.links),
    targets: linked(data.repository.links),
    updated_at: updated_on,
  });
}

function fromDataCenter(action: AnnouncedRequest['action'], body: unknown): FoundRequest | undefined {
  const { data } = DataCenter.safeParse(body);
  if (data === undefined) return undefined;
  const { id, fromRef, toRef } = data.pullRequest;
  return found({
    action,
    number: id,
    branch: fromRef.id.replace(/^refs\/heads\//, ''),
    commit: fromRef.latestCommit,
    sources: linked(fromRef.repository.links),
    targets: linked(toRef.repository.links),
    updated_at: data.date,
  });
}

function fromGenericRequest(body: unknown): FoundRequest | undefined {
  const { data } = GenericRequest.safeParse(body);
  if (data === undefined) return undefined;
  const { action, number: of, branch, commit, repository_url: url, source_url, updated_at } = data;
  return found({
    action: action === 'closed' ? 'close' : 'open',
    number: of,
    branch,
    commit,
    sources: [source_url ?? url],
    targets: [url],
    updated_at,
  });
}

function actionOf(word: string): AnnouncedRequest['action'] | undefined {
  if (opens.has(word)) return 'open';
  return closes.has(word) ? 'close' : undefined;
}

function linked(links: z.infer<typeof Links> | null | undefined): Text[] {
  return [...(links?.clone ?? []).map(({ href }) => href), links?.html?.href];
}

type Text = string | null | undefined;

/** What a body says of a request, each field as the git host has it. */
interface Said {
  action: AnnouncedRequest['action'];
  number: number;
  branch: string;
  commit: Text;
  /** Addresses of the repository with the branch. */
  sources: Text[];
  /** Addresses of the repository that the request is for. */
  targets: Text[];
  updated_at: Text;
}

function found({ commit, sources, targets, updated_at, ...request }: Said): FoundRequest {
  const isWhole = typeof commit === 'string' && /^[0-9a-f]{40}([0-9a-f]{24})?$/.test(commit);
  return {
    request: {
      ...request,
      ...defined({
        commit: isWhole ? commit : undefined,
        source_url: sources.find((it) => typeof it === 'string'),
        updated_at: timeOf(updated_at),
      }),
    },
    repositories: [...new Set(targets.filter((it) => typeof it === 'string'))].slice(0, 20),
  };
}

/** The time in our form; git hosts write it in several. */
function timeOf(text: Text): string | undefined {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? undefined : Timestamp.safeParse(new Date(ms).toISOString()).data;
}
