import { expect, it } from 'vitest';
import { decide } from '../../../controllers/operation/decide.ts';
import type { Compared } from '../../../controllers/operation/decide.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import { aDeployment, anApplication, aServer, object } from '../../harness/objects.ts';

const a = 'a'.repeat(40);
const b = 'b'.repeat(40);
const c = 'c'.repeat(40);
const source: DesiredOf<'application'>['source'] = {
  type: 'git',
  repository_url: 'https://git.example/shop.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  build_context: '.',
  build_args: {},
};

interface Case {
  app?: Partial<DesiredOf<'application'>>;
  /** Deployments, the oldest first; the application points at the last one. */
  had?: (Partial<DesiredOf<'deployment'>> & { is: ObservedOf<'deployment'> })[];
  server?: Parameters<typeof aServer>[0] | 'gone';
  credentials?: Compared['credentials'];
  latest?: string;
  matched?: boolean;
  upToDate?: boolean;
  areBuildsUsedUp?: boolean;
  asked?: boolean;
}

function decided({ app: fields, had = [{ is: succeeded(a) }], server, asked = false, ...it }: Case) {
  const app = anApplication({ source, autodeploy: true, ...fields });
  const deployments = had.map(({ is, ...desired }, at) => aDeployment(app, { number: at + 1, ...desired }, is));
  const newest = deployments.at(-1);
  if (newest !== undefined) app.desired.deployment_id = newest.meta.id;
  const compared: Compared = {
    app,
    deployments,
    server: server === 'gone' ? undefined : aServer(server),
    latest: b,
    matched: true,
    upToDate: false,
    areBuildsUsedUp: false,
    credentials: [],
    ...it,
  };
  return decide(compared, !asked).decision;
}

function succeeded(commit: string): ObservedOf<'deployment'> {
  return { phase: 'succeeded', image: 'i', image_digest: 'd', commit };
}
const failed = (commit: string): ObservedOf<'deployment'> => ({ phase: 'failed', commit });
const rollback = { reuse: { image: 'i', image_digest: 'd', commit: a } };

it.each<[string, ReturnType<typeof decided>, Case]>([
  ['a newer commit', 'would_deploy', {}],
  ['what serves', 'up_to_date', { latest: a, upToDate: true, matched: false }],
  ['files that are not watched', 'not_matched', { matched: false }],
  ['without autodeploy', 'autodeploy_off', { app: { autodeploy: false } }],
  ['a stopped application', 'stopped', { app: { run: 'stopped' } }],
  ['an application that is scaled to 0', 'stopped', { app: { replicas: 0 } }],
  ['a stopped application, asked by a user', 'stopped', { app: { run: 'stopped' }, asked: true }],
  ['a copy in a clone, which was never deployed', 'stopped', { app: { run: 'stopped' }, had: [] }],
  ['one that was never deployed, asked by a user', 'would_deploy', { app: { run: 'stopped' }, had: [], asked: true }],
  ['a deleted server', 'refused', { server: 'gone' }],
  ['a project whose builds have used up their time', 'refused', { areBuildsUsedUp: true }],
  ['a server that is not for the project', 'refused', { server: { allowed_projects: [] } }],
  [
    'a registry that is not for the project any more',
    'refused',
    { credentials: [{ word: 'registry', it: object('registry', { allowed_projects: [] }) }] },
  ],
  ['the commit under way', 'deploying', { had: [{ is: succeeded(a) }, { commit: b, is: { phase: 'building' } }] }],
  ['a later commit', 'would_deploy', { had: [{ is: succeeded(a) }, { commit: c, is: { phase: 'building' } }] }],
  [
    'the commit whose deployment is being cancelled, asked by a user',
    'would_deploy',
    { had: [{ is: succeeded(a) }, { commit: b, cancel_requested: true, is: { phase: 'building' } }], asked: true },
  ],
  ['a commit that failed', 'already_tried', { had: [{ is: succeeded(a) }, { commit: b, is: failed(b) }] }],
  [
    'a commit that failed, asked by a user',
    'would_deploy',
    { had: [{ is: succeeded(a) }, { commit: b, is: failed(b) }], asked: true },
  ],
  [
    'a commit that was rolled back',
    'already_tried',
    { had: [{ is: succeeded(a) }, { is: succeeded(b) }, { ...rollback, is: succeeded(a) }] },
  ],
  [
    'a commit that was rolled back, after what serves was built again',
    'already_tried',
    {
      had: [
        { is: succeeded(a) },
        { is: succeeded(b) },
        { ...rollback, is: succeeded(a) },
        { trigger: 'config', commit: a, is: succeeded(a) },
      ],
    },
  ],
  [
    'a commit that failed in a deployment of another configuration',
    'already_tried',
    { had: [{ is: succeeded(a) }, { is: { phase: 'superseded' } }, { trigger: 'config', is: failed(b) }] },
  ],
  [
    'a commit after one that was rolled back',
    'would_deploy',
    { latest: c, had: [{ is: succeeded(a) }, { is: succeeded(b) }, { ...rollback, is: succeeded(a) }] },
  ],
  ['a branch that went back', 'would_deploy', { had: [{ is: succeeded(b) }, { is: succeeded(a) }] }],
  [
    'a branch that went back to what serves while its later commit is deployed',
    'would_deploy',
    {
      latest: a,
      upToDate: true,
      matched: false,
      had: [{ is: succeeded(a) }, { commit: b, is: { phase: 'building' } }],
    },
  ],
  [
    'files that are not watched, while what was reverted is deployed',
    'would_deploy',
    { matched: false, had: [{ is: succeeded(a) }, { commit: c, is: { phase: 'building' } }] },
  ],
  [
    'files that are not watched, while a configuration is deployed',
    'not_matched',
    { matched: false, had: [{ is: succeeded(a) }, { ...rollback, commit: a, is: { phase: 'deploying' } }] },
  ],
  [
    'what serves, while a user deploys the head',
    'up_to_date',
    { latest: a, upToDate: true, matched: false, had: [{ is: succeeded(a) }, { is: { phase: 'building' } }] },
  ],
])('%s: %s', (_name, decision, it) => expect(decided(it)).toBe(decision));
