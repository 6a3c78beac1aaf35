import type { WireAssignment, WireService } from '../../agent-protocol/assignment.ts';

/** A service on the wire. */
export function wireItem(id: string, overrides: Partial<WireAssignment> = {}): WireAssignment {
  return {
    id,
    generation: 1,
    spec_hash: 'hash',
    tenant: 'acme',
    project_id: 'p',
    environment_id: 'e',
    workload_kind: 'application',
    workload_id: 'w',
    workload_name: 'web',
    deployment_id: 'd',
    run: 'running',
    spec: wireService(),
    ...overrides,
  };
}

/** How a service on the wire is to run. */
export function wireService(overrides: Partial<WireService> = {}): WireService {
  return {
    type: 'service',
    slot: 0,
    image: 'example/web:1',
    env: {},
    restart_policy: 'always',
    grace_seconds: 10,
    network: 'n',
    alias: 'web',
    ...overrides,
  };
}
