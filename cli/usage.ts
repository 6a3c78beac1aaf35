import type { Command } from 'commander';

/** After a wrong use of a command or of one below it, lets one line with its usage follow, in place of its whole help. */
export function showUsageAfterError(command: Command): void {
  const usage = command.createHelp().commandUsage(command);
  command.showHelpAfterError(`Usage: ${usage}; --help shows more`);
  for (const below of command.commands) showUsageAfterError(below);
}
