/** The program of a release: the agent alone, as one executable without a Node on the machine. */
import packageFile from '../package.json' with { type: 'json' };
import { displayable } from '../api/streams/log-frames.ts';
import { agentCommand } from './agent-command.ts';
import { forgetEmptyVariables } from './flag.ts';
import { showUsageAfterError } from './usage.ts';

forgetEmptyVariables();
try {
  const agent = agentCommand('setpoint-agent').version(packageFile.version);
  showUsageAfterError(agent);
  await agent.parseAsync();
} catch (error) {
  console.error(displayable(error instanceof Error ? error.message : String(error)));
  process.exitCode = 1;
}
