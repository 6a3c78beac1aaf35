import type { Fleet } from './fleet.ts';

type Told = Pick<Fleet, 'changed' | 'told' | 'follow' | 'wake' | 'wakeAll' | 'portsChanged' | 'overflowed' | 'reports'>;

/**
 * Passes what parts of the agent notice on to the fleet. The fleet works by these parts and is made after them: until then
 * there are no workers, and the link drops it.
 */
export class FleetLink implements Told {
  #fleet: Fleet | undefined;

  /** Passes everything on to this fleet from now on. */
  lead(fleet: Fleet): void {
    this.#fleet = fleet;
  }

  changed: Told['changed'] = (ids) => this.#fleet?.changed(ids);
  told: Told['told'] = (id, event) => this.#fleet?.told(id, event);
  follow: Told['follow'] = () => this.#fleet?.follow();
  wake: Told['wake'] = (ids) => this.#fleet?.wake(ids);
  wakeAll: Told['wakeAll'] = () => this.#fleet?.wakeAll();
  portsChanged: Told['portsChanged'] = (ids) => this.#fleet?.portsChanged(ids);
  overflowed: Told['overflowed'] = (id, overflow) => this.#fleet?.overflowed(id, overflow);
  reports: Told['reports'] = () => this.#fleet?.reports() ?? [];
}
