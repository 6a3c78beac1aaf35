import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { labels } from '../../agent/runtime/runtime.ts';
import { docker } from '../harness/engine.ts';
import { startGitServer, type GitServer } from '../harness/git-server.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';

describe('a rollback of an application that is built', () => {
  let town: Installation;
  let git: GitServer;
  let image: string;

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    git = await startGitServer();
    town = await Installation.start({ store: 'sqlite' });
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await git[Symbol.asyncDispose]();
  });

  it('succeeds after five failed deployments and a good one, and once more when its image was removed by hand', async () => {
    const port = await freePort();
    const files = (revision: string, more = '') => ({ Dockerfile: `FROM ${image}\nENV REVISION=${revision}\n${more}` });
    const repository = await git.repository(files('d1'));
    const app = await town.createApplication({
      source_type: 'git',
      repository_url: repository.url,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      exposed_port: port,
      healthcheck_path: '/healthz',
      env: { PORT: String(port) },
    });
    const deploy = async (status: string): Promise<void> => {
      const { id } = await town.deploy(app.id);
      await town.deployment(id, status, 120_000);
    };
    /** Answers the tag of the image that runs then. */
    const rollBack = async (): Promise<string> => {
      const { id } = await town.client.object('POST', `/api/v1/applications/${app.id}/rollback`, {});
      return String((await town.deployment(id, 'succeeded', 120_000))['image']);
    };
    const serves = (revision: string) =>
      town.until(`${revision} serves`, async () => {
        const answer = await fetch(`http://127.0.0.1:${port}/env/REVISION`);
        return (await answer.text()) === revision;
      });
    await deploy('succeeded');
    for (let n = 2; n <= 6; n++) {
      await repository.commit(files(`d${n}`, 'CMD ["/bin/false"]\n'));
      await deploy('failed');
    }
    await repository.commit(files('d7'));
    await deploy('succeeded');
    await serves('d7');
    const tags = async () => {
      const listed = await docker('images', '--format', '{{.Repository}}:{{.Tag}}');
      return listed.split('\n').filter((tag) => tag.startsWith(`setpoint/${String(app['internal_id'])}:`));
    };
    // The agent cleans up after something was dropped from its set: networks first, then images. Of two runs in a row,
    // the first has come to its end.
    for (const round of ['first', 'second']) {
      const canary = `sp-${round}-${app.id.slice(0, 8)}`;
      await docker('network', 'create', '--label', `${labels.server}=${town.server.id}`, canary);
      const other = await town.createApplication({ source_type: 'image', image_url: image, env: { PORT: '8080' } });
      await town.deployment((await town.deploy(other.id)).id, 'succeeded', 120_000);
      await town.client.request('DELETE', `/api/v1/applications/${other.id}`);
      await town.until(
        `the agent cleaned up for the ${round} time`,
        async () => !(await docker('network', 'ls', '--format', '{{.Name}}')).split('\n').includes(canary),
        60_000,
      );
    }
    expect((await tags()).length).toBeLessThan(7);
    expect(await rollBack()).toMatch(/:1$/); // the very image: nothing is built
    await serves('d1');

    const target = (await tags()).find((tag) => tag.endsWith(':7'));
    expect(target).toBeDefined();
    await docker('image', 'rm', '--force', target!);
    expect(await rollBack()).toMatch(/:9$/); // of the same commit, built by the ninth deployment
    await serves('d7');
  }, 600_000);
});
