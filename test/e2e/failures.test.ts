import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { startGitServer, type GitServer } from '../harness/git-server.ts';
import { brief, Installation, onBothStores } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

/** A deployment that cannot succeed: what is wrong, and what the error says. */
interface Trouble {
  fields: (port: number) => Record<string, unknown> | Promise<Record<string, unknown>>;
  code: string;
  message: RegExp;
}

for (const { store, tags } of onBothStores)
  describe.concurrent(`a deployment that cannot succeed on ${store}`, { tags }, () => {
    let town: Installation;
    let git: GitServer;
    let image: string;
    let hanging: Awaited<ReturnType<GitServer['hanging']>>;

    beforeAll(async () => {
      ({ http: image } = await ensureTestImages());
      git = await startGitServer();
      hanging = await git.hanging();
      town = await Installation.start({
        store,
        serverFlags: ['--rollout-deadline-seconds', '45', '--build-deadline-seconds', '30'],
      });
    });
    afterAll(async () => {
      await town[Symbol.asyncDispose]();
      await git[Symbol.asyncDispose]();
    });

    const fromGit = async (
      files: Record<string, string>,
      changes: Record<string, unknown> = {},
    ): Promise<Record<string, unknown>> => ({
      source_type: 'git',
      repository_url: (await git.repository(files)).url,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      image_url: null,
      ...changes,
    });

    const troubles: Record<string, Trouble> = {
      'an image that does not exist': {
        fields: () => ({ image_url: 'setpoint-test/absent:1' }),
        code: 'image_',
        message: /setpoint-test\/absent:1/,
      },
      'an image that exits': {
        fields: (port) => ({ start_command: `node -e "process.exit(${port > 0 ? 3 : 0})"` }),
        code: 'exited',
        message: /3/,
      },
      'a program that is not in the image': {
        fields: () => ({ start_command: '/no/such/program' }),
        code: 'create_failed',
        message: /no\/such\/program/,
      },
      'an image that is never healthy': {
        fields: () => ({ healthcheck_path: '/env/ABSENT' }),
        code: 'unhealthy',
        message: /404/,
      },
      'a build that fails': {
        fields: () => fromGit({ Dockerfile: `FROM ${image}\nRUN echo the reason is here && false\n` }),
        code: 'build_failed',
        message: /false|returned|non-zero/,
      },
      'a build that does not end': {
        fields: () => fromGit({ Dockerfile: `FROM ${image}\nRUN sleep 600\n` }),
        code: 'build_timeout',
        message: /--build-deadline-seconds/,
      },
      'a Dockerfile that asks for the network of the host': {
        fields: () => fromGit({ Dockerfile: `FROM ${image}\nRUN --network=host true\n` }),
        code: 'invalid_source',
        message: /--network=host/,
      },
      'a repository that does not exist': {
        fields: () => fromGit({ Dockerfile: `FROM ${image}` }, { repository_url: `${git.url}/absent.git` }),
        code: 'repository_unreachable',
        message: /absent\.git/,
      },
      'a repository that hangs': {
        fields: () => fromGit({ Dockerfile: `FROM ${image}` }, { repository_url: `${hanging.url}/x.git` }),
        code: 'repository_unreachable',
        message: /time|answer/,
      },
      'a branch that does not exist': {
        fields: () => fromGit({ Dockerfile: `FROM ${image}` }, { branch: 'absent' }),
        code: 'branch_not_found',
        message: /absent/,
      },
      'a branch whose name would be a command to a shell': {
        fields: () => fromGit({ Dockerfile: `FROM ${image}` }, { branch: ';id' }),
        code: 'branch_not_found',
        message: /;id/,
      },
      'a Dockerfile that does not exist': {
        fields: () => fromGit({ README: 'x' }),
        code: 'dockerfile_not_found',
        message: /Dockerfile/,
      },
    };

    /** An application that serves, made once per trouble, so that the older revision can be seen to stay. */
    async function serving(): Promise<{ app: ApiObject; port: number; reset: Record<string, unknown> }> {
      const port = await freePort();
      const reset = { source_type: 'image', image_url: image, healthcheck_path: '/healthz', start_command: null };
      const app = await town.createApplication({
        ...brief,
        source_type: 'image',
        image_url: image,
        healthcheck_path: '/healthz',
        exposed_port: port,
        env: { PORT: String(port), COLOUR: 'blue' },
      });
      await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
      return { app, port, reset };
    }

    const shownAlways = ['an image that does not exist', 'a build that fails'];
    for (const [name, trouble] of Object.entries(troubles))
      it(
        `${name}: fails with a clear error, the older one serves, the next is fine`,
        { tags: shownAlways.includes(name) ? [] : [longTag], timeout: 300_000 },
        async () => {
          const { app, port, reset } = await serving();
          const path = `/api/v1/applications/${app.id}`;
          const fields = await trouble.fields(port);
          await town.client.request('PUT', path, fields);
          const deployment = await town.until('it is taken up', async () => {
            const all = await town.client.list(`${path}/deployments`, { sort: '-created_at' });
            const newest = all.find((it) => Number(it['number']) > 1);
            return newest ?? town.deploy(app.id);
          });
          const failed = await town.deployment(deployment.id, 'failed', 120_000);
          const error = failed['error'] as { code: string; message: string };
          expect(error.code).toContain(trouble.code);
          expect(error.message).toMatch(trouble.message);
          expect(await (await fetch(`http://127.0.0.1:${port}/env/COLOUR`)).text()).toBe('blue');
          await town.until('the application says that the rollout failed', async () => {
            const one = await town.application(app.id);
            const ready = one.conditions?.find((it) => it.type === 'Ready');
            return one.status === 'running' && ready?.reason === 'RolloutFailed' && one['consecutive_failures'] === 1;
          });

          await town.client.request('PUT', path, reset);
          const next = await town.deploy(app.id);
          await town.deployment(next.id, 'succeeded', 90_000);
          expect(await (await fetch(`http://127.0.0.1:${port}/env/COLOUR`)).text()).toBe('blue');
        },
      );

    it('a port that something else uses: the first deployment fails and says which port', async () => {
      const stranger = createServer().listen(0, '0.0.0.0');
      await once(stranger, 'listening');
      const { port } = stranger.address() as { port: number };
      const app = await town.createApplication({
        ...brief,
        source_type: 'image',
        image_url: image,
        exposed_port: port,
        healthcheck_path: '/healthz',
        env: { PORT: String(port) },
      });
      const deployment = await town.deploy(app.id);
      const failed = await town.deployment(deployment.id, 'failed', 90_000);
      expect(failed['error']).toMatchObject({ code: 'port_taken' });
      expect(JSON.stringify(failed['error'])).toContain(String(port));
      await town.until('the application says so too', async () => (await town.application(app.id)).status === 'failed');
      stranger.close();
      await once(stranger, 'close');
      await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
    }, 240_000);

    it.each([
      [{ branch: '--upload-pack=x' }, 'branch'],
      [{ branch: 'a..b' }, 'branch'],
      [{ repository_url: '--upload-pack=x' }, 'repository_url'],
      [{ repository_url: 'ext::sh -c id' }, 'repository_url'],
      [{ dockerfile_path: '../Dockerfile' }, 'dockerfile_path'],
      [{ dockerfile_path: '/etc/passwd' }, 'dockerfile_path'],
      [{ build_context: '../..' }, 'build_context'],
    ])('refuses %j before anything runs', async (changes, field) => {
      const fields = await fromGit({ Dockerfile: `FROM ${image}` }, changes);
      delete fields['image_url'];
      await expect(town.createApplication(fields)).rejects.toThrow(new RegExp(field));
    });

    it(
      'a Dockerfile behind a symlink that leaves the repository is not followed',
      { tags: [longTag], timeout: 240_000 },
      async () => {
        const repository = await git.repository(
          { README: 'x' },
          { symlinks: { Dockerfile: '/etc/hostname', sub: '/etc' } },
        );
        for (const path of ['Dockerfile', 'sub/hostname']) {
          const app = await town.createApplication({
            ...brief,
            source_type: 'git',
            repository_url: repository.url,
            branch: 'main',
            dockerfile_path: path,
          });
          const failed = await town.deployment((await town.deploy(app.id)).id, 'failed', 90_000);
          expect(failed['error']).toMatchObject({ code: 'path_outside_repository' });
        }
      },
    );
  });
