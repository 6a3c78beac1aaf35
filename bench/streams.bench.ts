import { request } from 'node:http';
import type { Socket } from 'node:net';
import { z } from 'zod';
import { engineCall, engineSocket } from '../test/harness/docker.ts';
import { instancesOf } from '../test/harness/engine.ts';
import { Installation } from '../test/harness/installation.ts';
import { freePort } from '../test/harness/program.ts';
import { ensureTestImages } from '../test/harness/test-image.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { echoes, rates, socketPipe } from './pipe.ts';
import type { OpenPipe, Pipe } from './pipe.ts';

const rounds = 5;
const Created = z.object({ Id: z.string() });
const Made = z.object({ sessionId: z.string() });

export const bench: Bench = {
  id: 'P16',
  async run({ compareAll }) {
    const { http } = await ensureTestImages();
    await using town = await Installation.start({ store: 'sqlite' });
    const port = await freePort();
    const web = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
    const { id } = await town.createApplication({ source_type: 'image', image_url: http, ...web });
    await town.deployment((await town.deploy(id)).id, 'succeeded');
    const [container] = await instancesOf(id);
    if (container === undefined) throw new Error('The application has no instance');
    const raw: OpenPipe = (script) => attach(container, script);
    const ours: OpenPipe = (script) => terminal(town, id, script);

    for (const streams of [1, 8]) {
      const many = streams === 1 ? '1 terminal' : `${streams} terminals`;
      await compareAll({
        figures: {
          out: { what: `output of ${many} in a container, at WebSockets; raw: exec at the engine`, unit: 'MB per s' },
          in: { what: `the same, input`, unit: 'MB per s' },
        },
        rounds,
        raw: () => rates(raw, streams),
        ours: () => rates(ours, streams),
      });
    }
    await compareAll({
      figures: {
        p50: { what: 'a key until its echo, p50; raw: exec at the engine', unit: 'ms' },
        p99: { what: 'the same, p99', unit: 'ms' },
      },
      rounds,
      raw: () => echoes(raw),
      ours: () => echoes(ours),
    });
  },
};

/** A terminal by the API, over control plane and agent. */
async function terminal(town: Installation, app: string, script: string): Promise<Pipe> {
  const body = { command: ['/bin/sh', '-c', script] };
  // A place is free only some time after a terminal has ended.
  const made = await until('a place for a terminal is free', async () =>
    Made.parse(await town.client.request('POST', `/api/v1/applications/${app}/terminal`, body)),
  );
  const socket = await town.client.socket(`/ws/terminal/${made.sessionId}`, { output: 'binary' });
  return socketPipe(socket);
}

/** The same program on the same kind of terminal, by a hijacked connection to the engine. */
async function attach(container: string, script: string): Promise<Pipe> {
  const streams = { AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: true };
  const made = await engineCall('POST', `/containers/${container}/exec`, {
    ...streams,
    Cmd: ['/bin/sh', '-c', script],
  });
  const opened = Promise.withResolvers<{ socket: Socket; head: Buffer }>();
  const headers = { host: 'engine', connection: 'Upgrade', upgrade: 'tcp', 'content-type': 'application/json' };
  const path = `/v1.41/exec/${Created.parse(made).Id}/start`;
  const asked = request({ socketPath: engineSocket, method: 'POST', path, headers });
  asked.on('upgrade', (_answer, socket, head) => opened.resolve({ socket: socket as Socket, head })); // it is one
  asked.on('error', opened.reject);
  asked.end(JSON.stringify({ Detach: false, Tty: true }));
  const { socket, head } = await opened.promise;
  // With a listener, the bytes would be emitted at once.
  if (head.length > 0) socket.unshift(head);
  const pipe: Pipe = {
    read: () => undefined,
    lost: () => undefined,
    write: async (data) => {
      if (!socket.write(data)) await new Promise((resolve) => socket.once('drain', resolve));
    },
    [Symbol.dispose]: () => socket.destroy(),
  };
  socket.on('error', () => undefined); // `close` follows
  socket.on('close', () => pipe.lost('the engine closed the connection'));
  socket.on('data', (data: Buffer) => pipe.read(data));
  return pipe;
}
