import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { instancesOf } from '../harness/engine.ts';
import { startGitServer, type GitServer } from '../harness/git-server.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';

/** How often each program is killed, and the time in which the instant lies: about that of a deployment. */
const kills = 20;
const spanMs = 2500;

describe.each(['sqlite', 'etcd'] as const)('a git deployment on %s', (store) => {
  let town: Installation;
  let git: GitServer;
  let image: string;

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    git = await startGitServer();
    town = await Installation.start({ store });
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await git[Symbol.asyncDispose]();
  });

  it.each(['control plane', 'agent'])(
    'ends well whenever the %s is killed',
    async (victim) => {
      for (let round = 1; round <= kills; round++) {
        const afterMs = randomInt(spanMs);
        const port = await freePort();
        const { url } = await git.repository({ Dockerfile: `FROM ${image}\nENV ROUND=${round}\n` });
        const app = await town.createApplication({
          source_type: 'git',
          repository_url: url,
          branch: 'main',
          dockerfile_path: 'Dockerfile',
          exposed_port: port,
          healthcheck_path: '/healthz',
          env: { PORT: String(port) },
        });
        const deployment = await town.deploy(app.id);
        await delay(afterMs); // the instant of the kill is the point of the test
        await (victim === 'agent' ? town.agent : town.replicas[0]!.program).restart();
        await town.ready();
        await town.deployment(deployment.id, 'succeeded', 120_000);
        const answer = await fetch(`http://127.0.0.1:${port}/env/ROUND`);
        expect(await answer.text(), `killed after ${afterMs} ms`).toBe(String(round));
        expect(await instancesOf(app.id), `killed after ${afterMs} ms`).toHaveLength(1);
        await town.client.request('DELETE', `/api/v1/applications/${app.id}`);
      }
    },
    1_800_000,
  );
});
