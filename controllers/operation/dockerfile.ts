import { answerOf } from '../../agent-protocol/answer.ts';
import { Generated } from '../../agent-protocol/messages.ts';
import type { GenerateSettings } from '../../agent-protocol/generated-dockerfile.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { RunConfig } from '../../store/kinds/application.ts';
import { refuseForeign } from './refuse-foreign.ts';
import { OperationFailure, type Run } from './run.ts';

/** Asks the agent for the Dockerfile that a build of the application would generate now. Changes nothing. */
export const dockerfile: Run = async (it, tools) => {
  const { agents, ctx, signal, timeoutMs } = tools;
  const app =
    it.desired.application_id === undefined ? undefined : ctx.view.get('application', it.desired.application_id);
  if (app === undefined) throw new OperationFailure('not_found', 'Its application was deleted');
  const { source, config, app_type, server_id } = app.desired;
  if (source.type !== 'git')
    throw new OperationFailure(
      'invalid_source',
      `A Dockerfile is generated for a git source: this one is ${source.type}`,
    );
  refuseForeign(app, source.git_credential_id, tools);
  const { repository_url, branch, build_context, submodules } = source;
  const answer = await agents.call(
    ctx.tenant,
    server_id,
    {
      method: 'dockerfile.generate',
      project_id: app.desired.project_id,
      repository_url,
      branch,
      build_context,
      ...(submodules !== undefined && { submodules }),
      build_args: Object.keys(source.build_args),
      build_secret_ids: Object.keys(source.build_secrets ?? {}),
      generate: generateSettings(config, app_type),
      ...(source.git_credential_id !== undefined && { git_credential_id: source.git_credential_id }),
    },
    { timeoutMs, signal },
  );
  return { ...answerOf(Generated, answer), branch };
};

/** What the generated Dockerfile of an application depends on, beside its repository. */
export function generateSettings(config: DeepReadonly<RunConfig>, appType: string): GenerateSettings {
  return {
    ...(config.exposed_port !== undefined && { port: config.exposed_port }),
    has_command: config.start_command !== undefined,
    app_type: appType,
  };
}
