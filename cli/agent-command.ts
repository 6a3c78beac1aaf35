import { Command, Option } from 'commander';
import { flag } from './flag.ts';
import { stopSignal } from './stop-signal.ts';

/** The command that runs an agent: `setpoint agent` of a checkout, `setpoint-agent` of a release. */
export function agentCommand(name: string): Command {
  const agent = new Command(name)
    .description('run the agent of one server')
    .addOption(
      flag(
        '--server <url>',
        'address of the control plane with its tenant: https://HOST/TENANT; several, with commas, are its replicas',
      ),
    )
    .addOption(flag('--allow-plain-http', 'the control plane may be reached by http beyond this machine'))
    .addOption(
      new Option('--token <token>', 'join token, needed at the first start only')
        .env('SETPOINT_JOIN_TOKEN')
        .default(joinTokenOfOld(), 'none'),
    )
    .addOption(flag('--data <dir>', 'identity, desired set and logs (/var/lib/setpoint/agent)'))
    .addOption(flag('--runtime <name>', 'docker, or mock for trying things out (docker)'))
    .addOption(flag('--docker-socket <path>', 'socket of the engine (/var/run/docker.sock)'))
    .addOption(flag('--take-over-ports', 'take ports from agents that left rules and do not run here any more'))
    .addOption(
      flag('--local-images <list>', 'images of this machine that every project may use: NAME, NAME:TAG, PREFIX/*'),
    )
    .addOption(flag('--git-protocols <list>', 'also fetch sources by: http, file'))
    .addOption(flag('--git-file-roots <list>', 'folders below which sources may be fetched by file'))
    .addOption(flag('--git-loopback', 'sources may be fetched from this machine itself'))
    .addOption(flag('--git-private-networks <list>', 'private networks that sources may be fetched from: 10.0.0.0/8'))
    .addOption(
      flag('--git-max-bytes <bytes>', 'fetched for a build at most, with files of twice as many; default: 2 GiB'),
    )
    .addOption(flag('--ssh-config <path>', 'configuration of ssh for fetching sources: key, known hosts'))
    .addOption(flag('--imports <dir>', 'folder with dumps that admins may import (imports in that of --data)'))
    .addOption(flag('--import-networks <list>', 'networks that dumps may be fetched from, beside public addresses'))
    .addOption(flag('--no-server-terminals', 'no user may open a shell on this machine through Setpoint'))
    .addOption(flag('--log-level <level>', 'fatal, error, warn, info, debug or trace (info)'))
    .addOption(flag('--agent-home <dir>', 'folder of the installation, as its supervisor names it').hideHelp())
    .action(async (options: unknown) => (await import('./agent.ts')).runAgent(options, stopSignal()));

  agent
    .command('clean')
    .description('remove what agents left on this machine that do not run here any more: it is shown first')
    .addOption(flag('--docker-socket <path>', 'socket of the engine').default('/var/run/docker.sock'))
    .addOption(
      new Option('--only <servers>', 'of these servers, with commas between').argParser((text) => text.split(',')),
    )
    .option('--dry-run', 'only print what would be removed')
    .option('-y, --yes', 'do not ask')
    .action(async (_options: unknown, command: Command) =>
      (await import('./agent-clean.ts')).cleanAgent(command.optsWithGlobals(), stopSignal()),
    );
  agent
    .command('uninstall')
    .description('stop the agent of this machine and remove it, with its containers; volumes stay')
    .option('--keep-containers', 'leave what the engine has of it, such as where the engine is gone')
    .option('-y, --yes', 'do not ask')
    .addOption(new Option('--finish', 'remove the installation alone').hideHelp())
    .action(async (_options: unknown, command: Command) =>
      (await import('./agent-uninstall.ts')).uninstallAgent(command.optsWithGlobals(), stopSignal()),
    );
  return agent;
}

/**
 * Earlier releases read the join token from `SETPOINT_TOKEN`, which holds a session's token or service key for the
 * other commands.
 */
function joinTokenOfOld(): string | undefined {
  const token = process.env['SETPOINT_TOKEN'];
  return token?.startsWith('sj_') === true ? token : undefined;
}
