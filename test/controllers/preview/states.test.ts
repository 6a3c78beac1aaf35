import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { deploymentId, isOfBranch, stateOf, stepOf } from '../../../controllers/preview/states.ts';
import type { World } from '../../../controllers/preview/states.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import { aDeployment, anApplication, aServer, object } from '../../harness/objects.ts';

const repository_url = 'https://git.test/team/shop.git';
const one = 'a'.repeat(40);
const other = 'b'.repeat(40);
const fork = { fork_url: 'https://git.test/anna/shop.git', commit: one };

const git = (url = repository_url): DesiredOf<'application'>['source'] => ({
  type: 'git',
  repository_url: url,
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  build_context: '.',
  build_args: {},
});

function world(desired: Partial<DesiredOf<'preview'>> = {}, changes: Partial<World> = {}, observed?: object): World {
  const clone_of = { environment_id: '00000000-0000-4000-8000-000000000001', server_map: {}, complete: true };
  return {
    preview: object(
      'preview',
      { name: 'pr-1', repository_url, branch: 'feature', ...desired },
      {
        ...(observed !== undefined && {
          observed: { phase: 'creating', urls: [], ...observed } as ObservedOf<'preview'>,
        }),
      },
    ),
    project: object('project', {}),
    source: object('environment', {}),
    environment: object('environment', { clone_of }),
    namesake: undefined,
    apps: [anApplication({ source: git() })],
    functions: [],
    deployment: () => undefined,
    server: () => aServer(),
    credentials: () => [],
    areBuildsUsedUp: () => false,
    lack: () => undefined,
    ...changes,
  };
}

const noRoom = { reason: 'NoRoom', message: 'There is no room' } as const;
const unmade = { environment: undefined, apps: [] };

describe('SEC-66: the code of a fork', () => {
  it('has no environment, and so no secret, before its commit is approved', () => {
    for (const asked of [fork, { ...fork, approved_commit: other }, { fork_url: fork.fork_url }]) {
      expect(stepOf(world(asked, unmade))).toEqual({ do: 'wait' });
      expect(stateOf(world(asked, unmade)).observed).toMatchObject({ phase: 'awaiting_approval' });
    }
    expect(stepOf(world({ ...fork, approved_commit: one }, unmade))).toEqual({ do: 'create' });
  });

  it('is not deployed by the approval of an earlier commit', () => {
    const asked = { ...fork, commit: other, approved_commit: one };
    expect(stepOf(world(asked))).toEqual({ do: 'wait' });
    expect(stateOf(world(asked)).observed.phase).toBe('awaiting_approval');
  });

  it('is deployed once for each commit that was approved', () => {
    const desired = { ...fork, approved_commit: one };
    const before = world(desired);
    expect(stepOf(before)).toEqual({ do: 'deploy', apps: before.apps });
    const [app] = before.apps;
    const id = deploymentId(before.preview, app!);
    const made = anApplication({ source: git(fork.fork_url), deployment_id: id }, { id: app!.meta.id });
    const apps = [made];
    const deployment = (of: string) => (of === id ? aDeployment(made, { commit: one }) : undefined);
    const after = { ...before, apps, deployment };
    expect(stepOf(after)).toEqual({ do: 'wait' });
    expect(stateOf(after).observed.deployed_commit).toBe(one);
    // a deployment that was forgotten, or taken back by a person, is not made again
    const old = { ...world(desired, { apps }, { deployed_commit: one }), preview: { ...before.preview } };
    const told = { ...old, preview: world(desired, {}, { deployed_commit: one }).preview };
    expect(stepOf(told)).toEqual({ do: 'wait' });
    expect(
      stepOf(world({ ...desired, approved_commit: other, commit: other }, { apps }, { deployed_commit: one })),
    ).toEqual({
      do: 'deploy',
      apps,
    });
  });

  it('is deployed again where it returns to a commit that was approved before', () => {
    const approved = { ...fork, approved_commit: one };
    const before = world(approved);
    const [app] = before.apps;
    // ids are of one preview
    const { id } = before.preview.meta;
    const of = (more: object, observed: object) => {
      const { preview } = world({ ...approved, ...more }, {}, observed);
      return { ...preview, meta: { ...preview.meta, id } };
    };
    const at = (approval: number, commit: string) =>
      deploymentId(of({ approved_commit: commit, approvals: approval }, {}), app!);
    const serving = anApplication({ source: git(fork.fork_url), deployment_id: at(2, other) }, { id: app!.meta.id });
    const known = new Set([at(1, one), at(2, other)]);
    const deployment = (it: string) => (known.has(it) ? aDeployment(serving) : undefined);
    const again = (observed: object) => ({
      ...before,
      apps: [serving],
      deployment,
      preview: of({ approvals: 3 }, observed),
    });
    expect(stepOf(again({ deployed_commit: other, deployed_approval: 2 }))).toEqual({ do: 'deploy', apps: [serving] });
    // the second approval had deployed some of the applications alone
    expect(stepOf(again({ deployed_commit: one }))).toEqual({ do: 'deploy', apps: [serving] });
    known.add(at(3, one));
    const after = again({ deployed_commit: other, deployed_approval: 2 });
    expect(stepOf(after)).toEqual({ do: 'wait' });
    expect(stateOf(after).observed).toMatchObject({ deployed_commit: one, deployed_approval: 3 });
  });
});

describe('a preview', () => {
  it('waits for its copy, and ends when it or its source is gone', () => {
    expect(stepOf(world({}, unmade))).toEqual({ do: 'create' });
    const unfinished = object('environment', { clone_of: { environment_id: world().source!.meta.id } });
    expect(stepOf(world({}, { environment: unfinished }))).toEqual({ do: 'wait' });
    expect(stepOf(world({}, unmade, { environment_id: unfinished.meta.id }))).toMatchObject({ do: 'end' });
    expect(stepOf(world({}, { ...unmade, source: undefined }))).toMatchObject({ do: 'end' });
    expect(stepOf(world({}, { source: undefined }))).toMatchObject({ do: 'deploy' });
    const gone = object('project', {}, { deleting: true });
    expect(stepOf(world({}, { ...unmade, project: gone }))).toEqual({ do: 'wait' });
  });

  it('names the functions that it has copied and that nobody has deployed there', () => {
    const functions = [
      object('function', { name: 'nightly' }),
      object('function', { name: 'hello', version_id: randomUUID() }),
    ];
    const messageOf = (more: Partial<World>) => stateOf(world({}, { apps: [], ...more })).ready.message;
    expect(messageOf({ functions })).toBe(
      'Every application was deployed. These functions were copied and are stopped until you deploy them: nightly',
    );
    expect(messageOf({})).toBe('Every application was deployed');
    const many = Array.from({ length: 7 }, (_, index) => object('function', { name: `fn-${index}` }));
    expect(messageOf({ functions: many })).toContain('fn-4 and 2 more');
  });

  it('says what is in its way', () => {
    const namesake = object('environment', {});
    const taken = world({}, { ...unmade, namesake });
    expect([stepOf(taken).do, stateOf(taken).ready.reason]).toEqual(['wait', 'NameTaken']);
    const full = world({}, { areBuildsUsedUp: () => true });
    expect([stepOf(full).do, stateOf(full).ready.reason]).toEqual(['wait', 'BuildsUsedUp']);
    const crowded = world({}, { ...unmade, lack: () => noRoom });
    expect([stepOf(crowded).do, stateOf(crowded).ready.reason]).toEqual(['wait', 'NoRoom']);
    // what is there already needs no more of it
    expect(stepOf(world({}, { lack: () => noRoom })).do).toBe('deploy');
    for (const server of [undefined, aServer({ allowed_projects: [] })]) {
      const unusable = world({}, { server: () => server });
      expect([stepOf(unusable).do, stateOf(unusable).ready.reason]).toEqual(['wait', 'ServerNotUsable']);
    }
  });

  it.each([
    ['git credential', object('git_credential', { name: 'reader', allowed_projects: [] })],
    ['registry', object('registry', { name: 'reader', allowed_projects: [] })],
  ] as const)('uses no %s that was taken from its project', (word, of) => {
    const unusable = world({}, { credentials: () => [{ word, it: of }] });
    const { reason, message } = stateOf(unusable).ready;
    expect([stepOf(unusable).do, reason]).toEqual(['wait', 'CredentialNotUsable']);
    expect(message).toContain(`the ${word} reader`);
    const used = world({}, { credentials: () => [{ word, it: object(of.meta.kind, {}) }] });
    expect(stepOf(used).do).toBe('deploy');
  });

  it('has deployed no commit of a fork while one of its applications cannot be', () => {
    const desired = { ...fork, approved_commit: other, commit: other };
    const before = world(desired, {}, { deployed_commit: one });
    const made = anApplication({ source: git(fork.fork_url), deployment_id: '00000000-0000-4000-8000-000000000002' });
    const withdrawn = { ...before, apps: [made], server: () => aServer({ allowed_projects: [] }) };
    expect(stateOf(withdrawn).observed.deployed_commit).toBe(one);
    const given = { ...withdrawn, server: () => aServer() };
    expect(stepOf(given)).toEqual({ do: 'deploy', apps: [made] });
  });

  it('deploys no application with an inline compose file, whose services only the API reads', () => {
    const source = { type: 'compose', compose_file: { $sealed: 'sealed', for: 'application' } } as const;
    const composed = world({}, { apps: [anApplication({ name: 'stack', source })] });
    expect([stepOf(composed).do, stateOf(composed).ready.reason]).toEqual(['wait', 'ComposeNotPossible']);
    expect(stateOf(composed).ready.message).toContain('stack');
  });

  it('deploys an application whose compose file is in the repository of the branch', () => {
    const source = {
      type: 'compose',
      repository: { repository_url, branch: 'main', compose_path: 'compose.yaml' },
    } as const;
    const app = anApplication({ name: 'stack', source });
    expect(isOfBranch(app, world().preview)).toBe(true);
    expect(stepOf(world({}, { apps: [app] }))).toEqual({ do: 'deploy', apps: [app] });
  });

  it('is ready when all was deployed, and failed when something was not', () => {
    const app = anApplication({ source: git(), deployment_id: '00000000-0000-4000-8000-000000000002' });
    const of = (phase: ObservedOf<'deployment'>['phase']) =>
      stateOf(world({}, { apps: [app], deployment: () => aDeployment(app, {}, { phase }) })).observed.phase;
    expect([of('queued'), of('building'), of('succeeded'), of('failed'), of('cancelled')]).toEqual([
      'deploying',
      'deploying',
      'ready',
      'failed',
      'failed',
    ]);
  });

  it('has the branch where the repository is that of the branch, and nowhere else', () => {
    const { preview } = world(fork);
    const of = (source: DesiredOf<'application'>['source']) => isOfBranch(anApplication({ source }), preview);
    expect(of(git('git@git.test:team/shop.git'))).toBe(true);
    expect(of(git(fork.fork_url))).toBe(true);
    expect(of(git('https://git.test/team/other.git'))).toBe(false);
    expect(of({ type: 'image', image_url: 'web:1' })).toBe(false);
  });
});
