import type { Repository } from '../store/repo.ts';
import type { Unit } from '../store/unit-of-work.ts';

/** Objects per transaction, well within the limits of the store. */
const perUnit = 8;

/** Project and environment of seeded objects. */
export interface Place {
  project: string;
  environment: string;
}

/** Creates a project with its environment. */
export async function seedProject(repository: Repository): Promise<Place> {
  const [project, environment] = [crypto.randomUUID(), crypto.randomUUID()];
  const unit = repository.begin();
  const owner = crypto.randomUUID();
  unit.create('project', project, {
    name: 'bench',
    single_server_mode: false,
    auto_error_tracking_enabled: false,
    owner_id: owner,
    default_environment_id: environment,
  });
  unit.create('environment', environment, { project_id: project, name: 'production', type: 'production' });
  await unit.commit();
  return { project, environment };
}

/** Calls `create` for `count` objects, with `perUnit` of them in each transaction. */
export async function seedMany(
  repository: Repository,
  count: number,
  create: (unit: Unit, n: number) => void,
): Promise<void> {
  const commits: Promise<unknown>[] = [];
  for (let from = 0; from < count; from += perUnit) {
    const unit = repository.begin();
    for (let n = from; n < Math.min(count, from + perUnit); n += 1) create(unit, n);
    commits.push(unit.commit());
  }
  await Promise.all(commits);
}

export interface SeededServer {
  id: string;
  /** Ed25519, raw, base64url. */
  publicKey: string;
}

export function seedServer(unit: Unit, { id, publicKey }: SeededServer, n: number): void {
  unit.create('server', id, {
    name: `server-${n}`,
    port: 22,
    username: 'root',
    log_retention_days: 7,
    direct_ports_enabled: false,
    agent_public_key: publicKey,
  });
}

/** Creates an application; with `deployed` it has a deployment and should run. */
export function seedApplication(
  unit: Unit,
  place: Place & { server: string },
  n: number,
  options: { deployed: boolean },
): void {
  const id = crypto.randomUUID();
  const deployment = crypto.randomUUID();
  const source = { type: 'image', image_url: 'registry.example/web:1' } as const;
  const config = { env: {}, restart_policy: 'always', exposed_port: 8080, healthcheck_path: '/healthz' } as const;
  const where = { project_id: place.project, environment_id: place.environment, server_id: place.server };
  unit.create('application', id, {
    ...where,
    name: `web-${n}`,
    internal_id: `web-${n}-0a1b2c`,
    app_type: 'web',
    source,
    config,
    autodeploy: false,
    mounts: [],
    domains: [],
    replicas: 1,
    run: options.deployed ? 'running' : 'stopped',
    ...(options.deployed && { deployment_id: deployment }),
    next_deployment_number: options.deployed ? 2 : 1,
  });
  if (!options.deployed) return;
  unit.create('deployment', deployment, {
    ...where,
    application_id: id,
    number: 1,
    trigger: 'manual',
    source,
    config,
    queued_at: new Date().toISOString(),
    cancel_requested: false,
  });
}
