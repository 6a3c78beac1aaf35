import { randomBytes } from 'node:crypto';
import { totalmem } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { brief, Installation, onBothStores } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';

for (const { store, tags } of onBothStores)
  describe(`drift on ${store}`, { tags }, () => {
    let town: Installation;
    let image: string;
    let app: ApiObject;
    let port: number;

    beforeAll(async () => {
      ({ http: image } = await ensureTestImages());
      town = await Installation.start({ store });
      port = await freePort();
      app = await town.createApplication({
        ...brief,
        source_type: 'image',
        image_url: image,
        exposed_port: port,
        healthcheck_path: '/healthz',
        env: { PORT: String(port), COLOUR: 'blue' },
      });
      const deployment = await town.deploy(app.id);
      await town.deployment(deployment.id, 'succeeded');
      await isRunning();
    });
    afterAll(() => town[Symbol.asyncDispose]());

    const isRunning = (): Promise<unknown> =>
      town.until('it is running and ready', async () => {
        const one = await town.application(app.id);
        const ready = one.conditions?.find((it) => it.type === 'Ready');
        return one.status === 'running' && ready?.status === 'true' ? one : undefined;
      });
    const serves = (): Promise<unknown> =>
      town.until(
        'it serves',
        async () => (await (await fetch(`http://127.0.0.1:${port}/env/COLOUR`)).text()) === 'blue',
      );
    const instance = async (): Promise<string> => (await instancesOf(app.id))[0]!;
    const networkOf = (id: string): Promise<string> =>
      docker('inspect', '--format', '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}', id);

    it('brings back a container that was removed by hand, and says so', async () => {
      const before = await instance();
      await docker('rm', '--force', before);
      await serves();
      await isRunning();
      expect(await instance()).not.toBe(before);
      await town.until('an event reports it', async () => {
        const events = await town.client.request('GET', `/api/v1/applications/${app.id}/events`);
        return JSON.stringify(events).includes('removed');
      });
    });

    it.each<[how: string, end: 'goes on' | 'is replaced', change: (id: string) => Promise<unknown>]>([
      ['stopped', 'goes on', (id: string) => docker('stop', '--time', '1', id)],
      ['killed', 'goes on', (id: string) => docker('kill', id)],
      ['paused', 'goes on', (id: string) => docker('pause', id)],
      ['renamed', 'is replaced', (id: string) => docker('rename', id, `other-${randomBytes(3).toString('hex')}`)],
      [
        'taken off its network',
        'is replaced',
        async (id: string) => docker('network', 'disconnect', '--force', await networkOf(id), id),
      ],
      [
        'given other limits',
        'is replaced',
        (id: string) => docker('update', '--memory', '64m', '--memory-swap', '64m', id),
      ],
    ])('corrects a container that was %s: it %s', async (_how, end, change) => {
      const before = await instance();
      await change(before);
      await town.until(
        'one container runs as declared',
        async () => {
          const all = await instancesOf(app.id);
          if (all.length !== 1) return false;
          const detail = JSON.parse(await docker('inspect', all[0]!)) as {
            Name: string;
            State: { Status: string };
            HostConfig: { Memory: number };
            NetworkSettings: { Networks: Record<string, unknown> };
          }[];
          const [it] = detail;
          return (
            it?.State.Status === 'running' &&
            it.Name.startsWith('/sp-') &&
            it.HostConfig.Memory === Math.floor(totalmem() / 2) &&
            Object.keys(it.NetworkSettings.Networks).length === 1
          );
        },
        30_000,
      );
      await serves();
      await isRunning();
      expect((await instance()) === before ? 'goes on' : 'is replaced').toBe(end);
    });

    it('replaces a container that was made anew by hand with another environment and image', async () => {
      const id = await instance();
      const [detail] = JSON.parse(await docker('inspect', id)) as {
        Name: string;
        Config: { Labels: Record<string, string> };
      }[];
      const copied = Object.entries(detail!.Config.Labels).flatMap(([key, value]) => ['--label', `${key}=${value}`]);
      const name = detail!.Name.slice(1);
      // Whichever comes first, the agent's replacement or the one made by hand: in the end the declared one runs.
      await docker('rm', '--force', id);
      await docker(
        'run',
        '--detach',
        '--name',
        name,
        ...copied,
        '--env',
        'COLOUR=red',
        '--env',
        `PORT=${port}`,
        image,
      ).catch(() => '');
      await serves();
      await isRunning();
      const now = await instancesOf(app.id);
      expect(now).toHaveLength(1);
      expect(await docker('inspect', '--format', '{{json .Config.Env}}', now[0]!)).toContain('COLOUR=blue');
    });

    it('never touches a container that is not its own, whatever labels it bears', async () => {
      const [detail] = JSON.parse(await docker('inspect', await instance())) as {
        Config: { Labels: Record<string, string> };
      }[];
      const copied = Object.entries(detail!.Config.Labels).flatMap(([key, value]) => ['--label', `${key}=${value}`]);
      const plain = await docker('run', '--detach', '--label', 'test.foreign=yes', image);
      const disguised = await docker('run', '--detach', ...copied, image);
      const homeless = await docker(
        'run',
        '--detach',
        '--label',
        `${labels.server}=${town.server.id}`,
        '--label',
        `${labels.assignment}=${crypto.randomUUID()}`,
        image,
      );
      try {
        await town.agent.restart();
        await docker('rm', '--force', await ownInstance(disguised));
        await serves();
        await isRunning();
        for (const id of [plain, disguised, homeless])
          expect(await docker('inspect', '--format', '{{.State.Status}}', id)).toBe('running');
      } finally {
        await docker('rm', '--force', plain, disguised, homeless);
      }
    });

    async function ownInstance(foreign: string): Promise<string> {
      return (await instancesOf(app.id)).find((id) => id !== foreign)!;
    }
  });
