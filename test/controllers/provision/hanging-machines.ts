import type { ReachMachines } from '../../../controllers/operation/run.ts';
import { operationController } from '../../../controllers/operation/reconcile.ts';
import { SshFailure } from '../../../controllers/ssh/ssh-failure.ts';
import { askedOf, provisioningOf } from '../../../store/provisioning.ts';
import { commit } from '../../../store/unit.ts';
import { settle } from '../../harness/fake-clock.ts';
import { desiredState } from '../../harness/states.ts';
import { hang } from '../limits/scenes.ts';
import { id, openRig, tenant, type Rig } from '../runtime/rig.ts';
import { standInInstallation } from './stand-in-machine.ts';

/** Servers that are provisioned, whose machines take each connection and answer nothing. */
export interface HangingMachines extends AsyncDisposable {
  rig: Rig;
  /** Ids of the servers whose attempts go on, in the order in which these began. */
  visited: string[];
  /** Creates so many servers, and asks for their provisioning. */
  ask(count: number): Promise<void>;
  /** Asks for a look at the machine of a server; that one answers at once. */
  validate(server: string): Promise<void>;
}

export async function hangingMachines(): Promise<HangingMachines> {
  const visited: string[] = [];
  const machines: ReachMachines = {
    look: () => Promise.reject(new SshFailure('unreachable', 'No SSH server answers', 'Start it')),
    async visit(server, _view, signal) {
      visited.push(server.meta.id);
      try {
        return await hang(signal);
      } finally {
        visited.splice(visited.indexOf(server.meta.id), 1);
      }
    },
  };
  const agents = { call: () => Promise.reject(new Error('No agent is called')) };
  const rig = await openRig({
    controllers: [operationController({ agents, machines, installation: standInInstallation() })],
  });
  const sealed = { $sealed: 'x', for: 'y' };
  const credential = { type: 'key', algorithm: 'ed25519', public_key: 'ssh-ed25519 A', private_key: sealed } as const;
  const key = rig.repo.begin();
  key.create('ssh_key', id('key'), { name: 'fleet', credential });
  await commit(key);
  let made = 0;
  const requested_at = rig.clock.now().toISOString();
  const begin = async (operation: string, desired: object): Promise<void> => {
    const unit = rig.repo.begin();
    unit.create('operation', operation, desiredState('operation', { requested_at, ...desired }));
    await commit(unit);
    await settle(50); // a run that hangs never rests
  };
  return {
    rig,
    visited,
    async ask(count) {
      for (let n = 0; n < count; n += 1) {
        const server = id(`server ${(made += 1)}`);
        const unit = rig.repo.begin();
        const desired = { name: `s${made}`, ip_address: '192.0.2.7', ssh_key_id: id('key') };
        unit.create('server', server, desiredState('server', desired));
        await commit(unit);
        await settle(50);
        const view = rig.mirror.tenant(tenant);
        const asked = askedOf(view.get('server', server)!, view);
        await begin(provisioningOf(server), { type: 'provision', server_id: server, asked, deadline_seconds: 1800 });
      }
    },
    validate: (server) => begin(id('validate'), { type: 'validate', server_id: server, deadline_seconds: 20 }),
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}
