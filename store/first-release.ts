import type { Release } from './release.ts';

/** The fields of one kind, written as one text. */
const list = (text: string): readonly string[] => text.trim().split(/\s+/);

/**
 * What the first release knows, as of commit 7fbba61. Replicas of it announce nothing about that, so it is listed here.
 * The list never changes, and can go once no installation is upgraded from that release any more.
 */
export const firstRelease: Release = {
  reads: {
    user: 1,
    session: 1,
    service_key: 1,
    login_code: 1,
    project: 1,
    environment: 1,
    server: 1,
    application: 1,
    deployment: 1,
    assignment: 1,
    operation: 1,
    notification: 1,
    member: 1,
    invite: 1,
  },
  fields: {
    project: list(`
      name display_name description color single_server_mode default_server_id auto_error_tracking_enabled owner_id
      default_environment_id icon_path
    `),
    environment: list(`
      project_id name display_name type description color git_branch clone_of clone_of.environment_id
      clone_of.server_map clone_of.complete
    `),
    server: list(`
      name ip_address port username ssh_key_id log_retention_days direct_ports_enabled join_token_hash
      join_token_expires_at agent_public_key agent_id
    `),
    application: list(`
      project_id environment_id server_id registry_id name internal_id app_type app_type=web app_type=worker
      app_type=static source source.type source.type=image source.image_url source.type=git source.repository_url
      source.branch source.dockerfile_path source.build_context source.build_args source.build_args.*.$sealed
      source.build_args.*.for config config.env config.env.*.$sealed config.env.*.for config.exposed_port
      config.healthcheck_path config.restart_policy config.restart_policy=always config.restart_policy=on-failure
      config.restart_policy=no config.start_command config.memory_limit config.cpu_limit watch_paths autodeploy
      replicas run run=running run=stopped restart_token deployment_id next_deployment_number
    `),
    deployment: list(`
      application_id project_id environment_id server_id number trigger trigger=manual trigger=webhook
      trigger=rollback trigger=template trigger=config triggered_by source source.type source.type=image
      source.image_url source.type=git source.repository_url source.branch source.dockerfile_path
      source.build_context source.build_args source.build_args.*.$sealed source.build_args.*.for config config.env
      config.env.*.$sealed config.env.*.for config.exposed_port config.healthcheck_path config.restart_policy
      config.restart_policy=always config.restart_policy=on-failure config.restart_policy=no config.start_command
      config.memory_limit config.cpu_limit reuse reuse.image reuse.image_digest reuse.commit reuse.commit_message
      rollback_of queued_at cancel_requested
    `),
    operation: list(`
      type type=sync project_id application_id server_id requested_by requested_at deadline_seconds
    `),
    invite: list(`
      project_id email role role=admin role=member role=viewer role=user invited_by expires_at state state=pending
      state=accepted state=cancelled accepted_by accepted_at cancelled_at
    `),
  },
};
