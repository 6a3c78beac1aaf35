import { z } from 'zod';
import type { Client } from '../cli/client.ts';
import { Installation } from '../test/harness/installation.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { echoes, rates, socketPipe } from './pipe.ts';
import type { OpenPipe, Pipe } from './pipe.ts';

const rounds = 5;
/** The shell writes it when the program is about to begin; no line that is typed has it. */
const begin = 1;
const Made = z.object({ sessionId: z.string() });

/** The raw figures are those at the replica that the agent is connected to: what remains is the cost of the relay. */
export const bench: Bench = {
  id: 'P17',
  async run({ compareAll }) {
    await using town = await Installation.start({ store: 'etcd', replicas: 2 });
    const near = await town.replicaOfAgent();
    const at =
      (replica: number): OpenPipe =>
      (script) =>
        terminal(town.clientAt(replica), town.server.id, script);
    const [direct, relayed] = [at(near), at(1 - near)];

    for (const streams of [1, 8]) {
      const many = streams === 1 ? 'a terminal' : `${streams} terminals`;
      await compareAll({
        figures: {
          out: {
            what: `output of ${many} of a server, by another replica than the agent's; raw: by the agent's own`,
            unit: 'MB per s',
          },
          in: { what: 'the same, input', unit: 'MB per s' },
        },
        rounds,
        raw: () => rates(direct, streams),
        ours: () => rates(relayed, streams),
      });
    }
    await compareAll({
      figures: {
        p50: { what: 'a key until its echo in a terminal of a server, p50; the same two', unit: 'ms' },
        p99: { what: 'the same, p99', unit: 'ms' },
      },
      rounds,
      raw: () => echoes(direct),
      ours: () => echoes(relayed),
    });
  },
};

/** A terminal of the server in which the script is about to begin. */
async function terminal(client: Client, server: string, script: string): Promise<Pipe> {
  // A place is free only some time after a terminal has ended.
  const made = await until('a place for a terminal is free', async () =>
    Made.parse(await client.request('POST', `/api/v1/servers/${server}/terminal`, { shell: '/bin/sh' })),
  );
  const pipe = socketPipe(await client.socket(`/ws/terminal/${made.sessionId}`, { output: 'binary' }));
  const begun = new Promise<void>((resolve, reject) => {
    pipe.read = (data) => {
      if (data.includes(begin)) resolve();
    };
    pipe.lost = (why) => reject(new Error(`The shell did not start: ${why}`));
  });
  await pipe.write(Buffer.from(`exec /bin/sh -c 'stty -echo; printf "\\001"; read begin; ${script}'\r`));
  await begun;
  await pipe.write(Buffer.from('\r'));
  return pipe;
}
