/** Why an assignment failed or is not ready. */
const failureCodes = [
  'image_not_found',
  'image_not_allowed',
  'image_pull_failed',
  'repository_unreachable',
  'branch_not_found',
  'dockerfile_not_found',
  'path_outside_repository',
  'build_failed',
  'build_timeout',
  'invalid_source',
  'exited',
  'unhealthy',
  'port_taken',
  'out_of_memory',
  'no_space',
  'name_taken',
  'create_failed',
  /** What is to be removed is still used, such as a volume by a container. */
  'in_use',
  /** Another instance writes to a volume that the instance mounts. */
  'volume_in_use',
  /** A volume that was there is gone, and its data with it. */
  'data_lost',
  /** What a volume is to be a copy of may be written to by containers that run, or another copy is made first. */
  'copy_waits',
  /** What a volume is to be a copy of is not there, or must not or cannot be copied. */
  'copy_refused',
  'copy_failed',
  /** The agent ended while it carried out a task that must not be repeated by itself. */
  'interrupted',
  'runtime_unavailable',
  'secret_unavailable',
  /** The agent does not understand the item: it must be upgraded. */
  'agent_outdated',
] as const;
export type FailureCode = (typeof failureCodes)[number];
