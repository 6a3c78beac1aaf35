#!/usr/bin/env node
import { Command, Option } from 'commander';
import packageFile from '../package.json' with { type: 'json' };
import { displayable } from '../api/streams/log-frames.ts';
import { createClient } from './client.ts';
import { loadConnection } from './credentials.ts';
import { stopSignal } from './stop-signal.ts';
import { verbs } from './verbs.ts';
import type * as Login from './verbs/login.ts';

/** A flag that the environment can set as well: `--log-level` is `SETPOINT_LOG_LEVEL`. */
function flag(flags: string, text: string): Option {
  const option = new Option(flags, text);
  const name = option.long?.slice(2).replaceAll('-', '_').toUpperCase() ?? '';
  return option.env(`SETPOINT_${name}`);
}

const program = new Command('setpoint')
  .description('Drives your own servers toward what you declared')
  .version(packageFile.version)
  .showHelpAfterError();

program
  .command('server')
  .description('run the control plane')
  .addOption(flag('--listen <host:port>', 'address of API, streams and agents (127.0.0.1:7070)'))
  .addOption(flag('--store <url>', 'sqlite:PATH or etcd://HOST:PORT,HOST:PORT (embedded, in the data directory)'))
  .addOption(flag('--etcd-ca <file>', 'certificate of the authority that etcd is to be certified by, in PEM: TLS'))
  .addOption(flag('--etcd-cert <file>', 'certificate by which this replica proves itself to etcd, in PEM'))
  .addOption(flag('--etcd-key <file>', 'key of that certificate'))
  .addOption(flag('--etcd-user <name>', 'user of etcd'))
  .addOption(flag('--etcd-password-file <file>', 'file that holds the password of that user'))
  .addOption(flag('--data <dir>', 'keys and the embedded store (/var/lib/setpoint/server)'))
  .addOption(flag('--public-url <url>', 'address under which users and agents reach this installation'))
  .addOption(flag('--internal-url <url>', 'address under which the other replicas reach this one'))
  .addOption(flag('--trusted-proxies <list>', 'addresses or CIDR ranges whose X-Forwarded-For is believed'))
  .addOption(
    flag('--smtp-url <url>', 'mail server: smtp://[USER:PASSWORD@]HOST[:PORT], or smtps://… (mail is only logged)'),
  )
  .addOption(flag('--mail-from <address>', 'sender of mail'))
  .addOption(
    flag(
      '--setup-token <token>',
      'what the first user of a tenant must present: auto, off, or a text of your own (auto)',
    ),
  )
  .addOption(flag('--signing-key-days <n>', 'days after which another key signs tokens (90)'))
  .addOption(flag('--build-deadline-seconds <n>', 'longest build (1800)'))
  .addOption(flag('--rollout-deadline-seconds <n>', 'time in which new instances must become ready (600)'))
  .addOption(flag('--audit-retention-days <n>', 'age up to which audit records are kept (90)'))
  .addOption(flag('--log-level <level>', 'fatal, error, warn, info, debug or trace (info)'))
  .action(async (options: unknown) => (await import('./server.ts')).runServer(options, stopSignal()));

program
  .command('agent')
  .description('run the agent of one server')
  .addOption(
    flag(
      '--server <url>',
      'address of the control plane with its tenant: https://HOST/TENANT; several, with commas, are its replicas',
    ),
  )
  .addOption(flag('--token <token>', 'join token, needed at the first start only'))
  .addOption(flag('--data <dir>', 'identity, desired set and logs (/var/lib/setpoint/agent)'))
  .addOption(flag('--runtime <name>', 'docker, or mock for trying things out (docker)'))
  .addOption(flag('--docker-socket <path>', 'socket of the engine (/var/run/docker.sock)'))
  .addOption(flag('--git-protocols <list>', 'also fetch sources by: http, file'))
  .addOption(flag('--git-file-roots <list>', 'folders below which sources may be fetched by file'))
  .addOption(flag('--git-loopback', 'sources may be fetched from this machine itself'))
  .addOption(flag('--ssh-config <path>', 'configuration of ssh for fetching sources: key, known hosts'))
  .addOption(flag('--log-level <level>', 'fatal, error, warn, info, debug or trace (info)'))
  .action(async (options: unknown) => (await import('./agent.ts')).runAgent(options, stopSignal()));

program
  .command('dev')
  .description('run control plane and agent on this machine and deploy the example')
  .addOption(flag('--listen <host:port>', 'address of the control plane (127.0.0.1:7070)'))
  .addOption(flag('--data <dir>', 'where everything is kept (data)'))
  .addOption(flag('--example-port <port>', 'port of the example application (8080)'))
  .addOption(flag('--log-level <level>', 'level of dev.log in the data directory (warn)'))
  .action(async (options: unknown) => (await import('./dev.ts')).runDev(options, stopSignal()));

entrance('login', 'log in; the password is read from the terminal or from standard input')
  .option('--code', 'by a code that is mailed, for an account without password')
  .action(async (options: Parameters<typeof Login.login>[0]) => (await import('./verbs/login.ts')).login(options));
entrance('register', 'register the first user of a tenant and log in; the password is read as for a login')
  .option('--first-name <name>', 'first name', '')
  .option('--last-name <name>', 'last name', '')
  .option('--setup-token <token>', 'the token that the server printed, where it asks for one')
  .action(async (options: Parameters<typeof Login.register>[0]) =>
    (await import('./verbs/login.ts')).register(options),
  );

function entrance(name: string, text: string): Command {
  return program
    .command(name)
    .description(text)
    .addOption(new Option('--server <url>', 'address of the control plane').env('SETPOINT_URL').makeOptionMandatory())
    .addOption(flag('--tenant <name>', 'tenant').default('default'))
    .requiredOption('--email <address>', 'address of the account');
}

for (const verb of verbs) {
  const command = program
    .command(verb.use)
    .description(verb.text)
    .addOption(
      new Option('--server <url>', 'address of the control plane (that of the last login)').env('SETPOINT_URL'),
    )
    .addOption(flag('--tenant <name>', 'tenant (that of the last login)'))
    .addOption(flag('--token <token>', 'token or service key (that of the last login)'));
  if (verb.inProject) command.addOption(flag('--project <name>', 'only within this project'));
  for (const option of verb.options) command.addOption(option);
  command.action(async () => {
    const options = command.opts<Parameters<typeof loadConnection>[0]>();
    const signal = stopSignal();
    await verb.run(createClient(await loadConnection(options), signal), command.args, options, signal);
  });
}

const tenant = program.command('tenant').description('tenants of the installation; run beside a running server');
tenant
  .command('create <name>')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (name: string, options: { data: string }) =>
    (await import('./verbs/tenant.ts')).createTenant(options.data, name),
  );
tenant
  .command('list')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (options: { data: string }) => (await import('./verbs/tenant.ts')).listTenants(options.data));
tenant
  .command('delete <name>')
  .description('delete a tenant and everything in it, on its servers too')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .option('--confirm <name>', 'the name once more, instead of typing it')
  .action(async (name: string, options: { data: string; confirm?: string }) =>
    (await import('./verbs/tenant.ts')).deleteTenant(options.data, name, options.confirm),
  );

tenant
  .command('audit')
  .description('who made and deleted tenants, and whether that log is as it was written')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (options: { data: string }) => (await import('./verbs/tenant.ts')).auditTenants(options.data));

const keys = program.command('keys').description('keys that sign tokens; run beside a running server');
keys
  .command('rotate')
  .description('sign with a new key from now on; sessions go on')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (options: { data: string }) => (await import('./verbs/keys.ts')).rotateKeys(options.data));
keys
  .command('list')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (options: { data: string }) => (await import('./verbs/keys.ts')).listKeys(options.data));

const user = program
  .command('user')
  .description('accounts that cannot be reached any more; run beside a running server');
user
  .command('reset-password <email>')
  .description('give the account a new password, which is printed, and end its sessions')
  .addOption(flag('--tenant <name>', 'tenant').default('default'))
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (email: string, options: { data: string; tenant: string }) =>
    (await import('./verbs/user.ts')).resetPassword(options.data, options.tenant, email),
  );
user
  .command('reset-two-factor <email>')
  .description('let the account log in without a second factor, and end its sessions')
  .addOption(flag('--tenant <name>', 'tenant').default('default'))
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (email: string, options: { data: string; tenant: string }) =>
    (await import('./verbs/user.ts')).resetTwoFactor(options.data, options.tenant, email),
  );

// `setpoint get … | head`: whoever reads has enough
process.stdout.on('error', (error: Error & { code?: string }) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

try {
  await program.parseAsync();
} catch (error) {
  console.error(displayable(error instanceof Error ? error.message : String(error)));
  process.exitCode = 1;
}
