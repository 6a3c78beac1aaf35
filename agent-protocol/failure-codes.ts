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
  'run_failed',
  'run_timeout',
  'backup_failed',
  'backup_timeout',
  'restore_failed',
  'restore_timeout',
  /** The database whose data is wanted does not serve. */
  'not_serving',
  /** No instance of a changed function starts, which serves on as before. */
  'not_started',
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
  /** The proxy of the server does not take a route. */
  'route_refused',
  /** The server has no proxy that could carry out a route, or it does not answer. */
  'ingress_unavailable',
  /** The proxy of the server does not take the settings of the ingress, and goes on with those of before. */
  'proxy_refused',
  /** The agent ended while it carried out a task that must not be repeated by itself. */
  'interrupted',
  /** Segments of the log of a database wait, as the bucket, the control plane or the database does not answer. */
  'archive_waits',
  /** A segment is not what was sent before under its name, or is no segment of this database. */
  'archive_refused',
  'recovery_failed',
  'recovery_timeout',
  /** Bytes did not reach a bucket, or did not come from it, or came otherwise than they were written. */
  'transfer_failed',
  'runtime_unavailable',
  'secret_unavailable',
  /** The agent does not understand the item: it must be upgraded. */
  'agent_outdated',
] as const;
export type FailureCode = (typeof failureCodes)[number];
