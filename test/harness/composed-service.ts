import { StoredComposedService } from '../../store/kinds/composed-service.ts';

/** A service of a compose file as a deployment has it. */
export function composedService(
  name: string,
  version: string,
  more: Partial<StoredComposedService> = {},
): StoredComposedService {
  return StoredComposedService.parse({
    name,
    version,
    image: `${name}:1`,
    env: {},
    env_files: [],
    ports: [],
    mounts: [],
    files: [],
    depends_on: [],
    restart_policy: 'always',
    replicas: 1,
    limits: {},
    networks: [{ name: 'default', aliases: [name] }],
    grace_seconds: 10,
    read_only_root: false,
    init: false,
    capabilities: { drop: [], add: [] },
    ...more,
  });
}
