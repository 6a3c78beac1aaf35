import { createHmac, randomUUID } from 'node:crypto';

/** What a push is in the forms of git hosts, as their documentation describes them, without what nothing reads. */
export interface Pushed {
  /** Address by https. */
  url: string;
  ref: string;
  before: string;
  after: string;
}

export interface Signed {
  body: string;
  headers: Record<string, string>;
}

export type Host = (push: Pushed, secret: string, more?: { id?: string; event?: string }) => Signed;

const zeros = '0'.repeat(40);
const ssh = (url: string): string => url.replace(/^https?:\/\/([^/:]+)(:\d+)?\//, 'git@$1:');
export const hex = (secret: string, body: string): string => createHmac('sha256', secret).update(body).digest('hex');
const json = { 'content-type': 'application/json' };

export const github: Host = ({ url, ref, before, after }, secret, { id = randomUUID(), event = 'push' } = {}) => {
  const body = JSON.stringify({
    ref,
    before,
    after,
    created: before === zeros,
    deleted: after === zeros,
    forced: false,
    base_ref: null,
    compare: `${url}/compare/${before}...${after}`,
    commits: [],
    repository: {
      id: 1,
      full_name: 'team/shop',
      private: true,
      html_url: url.replace(/\.git$/, ''),
      url: url.replace(/\.git$/, ''),
      git_url: url.replace(/^https?/, 'git'),
      ssh_url: ssh(url),
      clone_url: url,
    },
    pusher: { name: 'one', email: 'one@example.test' },
  });
  return {
    body,
    headers: {
      ...json,
      'user-agent': 'GitHub-Hookshot/044aadd',
      'x-github-event': event,
      'x-github-delivery': id,
      'x-hub-signature-256': `sha256=${hex(secret, body)}`,
    },
  };
};

/** GitHub as it is unless the user chooses JSON. */
export const githubForm: Host = (push, secret, more) => {
  const { body: payload, headers } = github(push, secret, more);
  const body = new URLSearchParams({ payload }).toString();
  return {
    body,
    headers: {
      ...headers,
      'content-type': 'application/x-www-form-urlencoded',
      'x-hub-signature-256': `sha256=${hex(secret, body)}`,
    },
  };
};

export const gitea: Host = ({ url, ref, before, after }, secret, { id = randomUUID(), event = 'push' } = {}) => {
  const body = JSON.stringify({
    ref,
    before,
    after,
    compare_url: url,
    commits: [],
    repository: { id: 140, full_name: 'team/shop', html_url: url, ssh_url: ssh(url), clone_url: url },
    pusher: { id: 1, login: 'one' },
  });
  return {
    body,
    headers: {
      ...json,
      'x-gitea-event': event,
      'x-gitea-delivery': id,
      'x-gogs-event': event,
      'x-gitea-signature': hex(secret, body),
    },
  };
};

export const forgejo: Host = (push, secret, more) => {
  const { body, headers } = gitea(push, secret, more);
  const renamed = Object.entries(headers).map(([name, value]) => [name.replace('x-gitea-', 'x-forgejo-'), value]);
  return { body, headers: Object.fromEntries(renamed) };
};

export const gitlab: Host = (
  { url, ref, before, after },
  secret,
  { id = randomUUID(), event = ref.startsWith('refs/tags/') ? 'Tag Push Hook' : 'Push Hook' } = {},
) => {
  const body = JSON.stringify({
    object_kind: 'push',
    event_name: 'push',
    ref,
    before,
    after,
    checkout_sha: after === zeros ? null : after,
    project_id: 15,
    project: { id: 15, web_url: url, git_ssh_url: ssh(url), git_http_url: url, default_branch: 'main' },
    commits: [],
    repository: { name: 'shop', url: ssh(url), homepage: url, git_http_url: url, git_ssh_url: ssh(url) },
  });
  return {
    body,
    headers: { ...json, 'x-gitlab-event': event, 'x-gitlab-event-uuid': id, 'x-gitlab-token': secret },
  };
};

/** GitLab with a signing token. */
export const gitlabSigned =
  (now: () => Date): Host =>
  (push, secret, { id = randomUUID(), ...more } = {}) => {
    const { body, headers } = gitlab(push, 'not the token', more);
    const stamp = String(Math.floor(now().getTime() / 1000));
    const signature = createHmac('sha256', secret).update(`${id}.${stamp}.${body}`).digest('base64');
    const signed = { 'webhook-id': id, 'webhook-timestamp': stamp, 'webhook-signature': `v1,${signature}` };
    return { body, headers: { ...headers, ...signed } };
  };

export const bitbucket: Host = (
  { url, ref, before, after },
  secret,
  { id = randomUUID(), event = 'repo:push' } = {},
) => {
  const of = (hash: string) => ({
    type: ref.startsWith('refs/tags/') ? 'tag' : 'branch',
    name: ref.replace(/^refs\/(heads|tags)\//, ''),
    target: { type: 'commit', hash },
  });
  const body = JSON.stringify({
    actor: { nickname: 'one' },
    repository: { type: 'repository', full_name: 'team/shop', links: { html: { href: url.replace(/\.git$/, '') } } },
    push: {
      changes: [
        {
          old: before === zeros ? null : of(before),
          new: after === zeros ? null : of(after),
          created: before === zeros,
          closed: after === zeros,
          forced: false,
        },
      ],
    },
  });
  return {
    body,
    headers: {
      ...json,
      'x-event-key': event,
      'x-request-uuid': id,
      'x-hook-uuid': randomUUID(),
      'x-hub-signature': `sha256=${hex(secret, body)}`,
    },
  };
};

export const bitbucketServer: Host = ({ url, ref, before, after }, secret, { id = randomUUID() } = {}) => {
  const type = after === zeros ? 'DELETE' : before === zeros ? 'ADD' : 'UPDATE';
  const body = JSON.stringify({
    eventKey: 'repo:refs_changed',
    repository: {
      slug: 'shop',
      links: {
        clone: [
          { href: url, name: 'http' },
          { href: ssh(url), name: 'ssh' },
        ],
      },
    },
    changes: [
      { ref: { id: ref, displayId: 'main', type: 'BRANCH' }, refId: ref, fromHash: before, toHash: after, type },
    ],
  });
  return {
    body,
    headers: {
      ...json,
      'x-event-key': 'repo:refs_changed',
      'x-request-id': id,
      'x-hub-signature': `sha256=${hex(secret, body)}`,
    },
  };
};

/** Any program; `at`: seconds since 1970. */
export function generic(
  { url, ref, after }: Pick<Pushed, 'url' | 'ref' | 'after'>,
  secret: string,
  at: number,
): Signed {
  const body = JSON.stringify({ event: 'push', repository_url: url, ref, commit: after });
  const v1 = createHmac('sha256', secret).update(`${at}.${body}`).digest('hex');
  return { body, headers: { ...json, 'x-setpoint-signature': `t=${at},v1=${v1}` } };
}
