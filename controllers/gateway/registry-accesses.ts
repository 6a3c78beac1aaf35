import type { RegistryAccess } from '../../agent-protocol/registry-access.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unsealer } from '../../store/seal.ts';

/** Workloads per message. */
const batch = 500;

interface Options {
  view: Pick<TenantView, 'by' | 'get'>;
  unsealer: Unsealer;
  server: string;
  send: (workloads: Record<string, RegistryAccess | null>, whole: boolean) => void;
}

/**
 * Sends one agent what the images of the applications on its server are pulled with: all of it at the beginning, then the
 * changes, each before the items that need it. Passwords are opened for the message, and kept nowhere.
 */
export class RegistryAccesses {
  readonly #options: Options;
  /** The records that were sent, by application. */
  readonly #sent = new Map<string, ReadonlyResource<'registry'>['desired'] | 'gone'>();
  #hasBegun = false;

  constructor(options: Options) {
    this.#options = options;
  }

  begin(): void {
    this.#hasBegun = true;
    const all = this.#options.view.by('application', 'server', this.#options.server).map(({ meta }) => meta.id);
    for (let from = 0; from === 0 || from < all.length; from += batch)
      this.#send(all.slice(from, from + batch), from === 0);
  }

  /** The application changed or was deleted. */
  applicationChanged(id: string): void {
    if (this.#hasBegun) this.#send([id], false);
  }

  /** The registry changed or was deleted. */
  registryChanged(id: string): void {
    if (!this.#hasBegun) return;
    const { view, server } = this.#options;
    const users = view.by('application', 'registry', id).filter(({ desired }) => desired.server_id === server);
    for (let from = 0; from < users.length; from += batch)
      this.#send(
        users.slice(from, from + batch).map(({ meta }) => meta.id),
        false,
      );
  }

  #send(applications: readonly string[], whole: boolean): void {
    const { view, server, send } = this.#options;
    const workloads: Record<string, RegistryAccess | null> = {};
    for (const id of applications) {
      const app = view.get('application', id);
      const registryId = app?.desired.server_id === server ? app.desired.registry_id : undefined;
      const registry = registryId === undefined ? undefined : view.get('registry', registryId);
      const now = registry?.desired ?? (registryId === undefined ? undefined : 'gone');
      if (this.#sent.get(id) === now) continue;
      workloads[id] = registry === undefined ? null : this.#opened(registry);
      if (now === undefined) this.#sent.delete(id);
      else this.#sent.set(id, now);
    }
    if (whole || Object.keys(workloads).length > 0) send(workloads, whole);
  }

  #opened({ meta, desired }: ReadonlyResource<'registry'>): RegistryAccess {
    const { address, username, password, name } = desired;
    try {
      const place = { tenant: meta.tenant, kind: 'registry', id: meta.id, path: 'password' };
      return { registry: address, username, password: this.#options.unsealer.unseal(password, place) };
    } catch {
      const failure = `The password of registry ${name} cannot be decrypted: its key is not on the control plane. Restore the key file, or give the registry its password anew`;
      return { registry: address, failure };
    }
  }
}
