#!/usr/bin/env node
import { Command, Option } from 'commander';
import packageFile from '../package.json' with { type: 'json' };
import { displayable } from '../api/streams/log-frames.ts';
import { defined } from '../store/defined.ts';
import { agentCommand } from './agent-command.ts';
import { createClient } from './client.ts';
import { loadConnection } from './credentials.ts';
import type { Given } from './credentials.ts';
import { flag, forgetEmptyVariables } from './flag.ts';
import { serverCommand } from './server-command.ts';
import { stopSignal } from './stop-signal.ts';
import { showUsageAfterError } from './usage.ts';
import { createKeyVerb, verbs } from './verbs.ts';
import type { Verb } from './verbs.ts';
import type * as Login from './verbs/login.ts';

forgetEmptyVariables();

const program = new Command('setpoint')
  .description('Drives your own servers toward what you declared')
  .version(packageFile.version);

program.addCommand(serverCommand());
program.addCommand(agentCommand('agent'));

program
  .command('dev')
  .description('run control plane and agent on this machine and deploy the example')
  .addOption(flag('--listen <host:port>', 'address of the control plane (127.0.0.1:7070)'))
  .addOption(flag('--public-url <url>', 'address for users and for agents on other machines (where it listens)'))
  .addOption(flag('--allow-plain-http', 'agents on other machines may reach that address by http'))
  .addOption(flag('--data <dir>', 'where everything is kept (data)'))
  .addOption(flag('--example-port <port>', 'port of the example application (8080)'))
  .addOption(flag('--take-over-ports', 'take ports from agents that left rules and do not run here any more'))
  .addOption(flag('--ingress-image <image>', 'image of the proxy (docker.io/library/caddy:2.11-alpine)'))
  .addOption(flag('--local-images <list>', 'images of this machine that every project may use without a registry'))
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
    .addOption(flag('--context <name>', 'name under which the login is kept (HOST/TENANT)'))
    .requiredOption('--email <address>', 'address of the account');
}

/** The exit code of an error. */
let errorCode = 1;
/** Aborts when nothing reads standard output any more. */
const unread = new AbortController();

for (const verb of verbs) addVerb(program, verb);

function addVerb(parent: Command, verb: Verb): void {
  const command = parent
    .command(verb.use)
    .description(verb.text)
    .addOption(
      new Option('--server <url>', 'address of the control plane (that of the last login)').env('SETPOINT_URL'),
    )
    .addOption(flag('--tenant <name>', 'tenant (that of the last login)'))
    .addOption(flag('--token <token>', 'token or service key (that of the last login)'))
    .addOption(flag('--context <name>', 'a login that is kept: see `setpoint context list`'));
  if (verb.inProject) command.addOption(flag('--project <name>', 'only within this project'));
  for (const option of verb.options) command.addOption(option);
  const { errorCode: code } = verb;
  // what is wrong with the command line ends the process before the action
  if (code !== undefined) command.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : code));
  command.action(async () => {
    errorCode = verb.errorCode ?? 1;
    const options = command.opts<Given>();
    const { endsWithReader: ends = false } = verb;
    const isEnded = typeof ends === 'function' ? ends(command.args) : ends;
    const signal = isEnded ? AbortSignal.any([stopSignal(), unread.signal]) : stopSignal();
    const connection = await loadConnection(withoutOthers(command, options));
    await verb.run(createClient(connection, signal), command.args, options, signal);
  });
}

/** A login that is named on the command line is not mixed with what the environment has of another one. */
function withoutOthers(command: Command, { server, tenant, token, context: name }: Given): Given {
  const isMixed = command.getOptionValueSource('context') === 'cli';
  const isOther = (option: string): boolean => isMixed && command.getOptionValueSource(option) === 'env';
  return defined({
    server: isOther('server') ? undefined : server,
    tenant: isOther('tenant') ? undefined : tenant,
    token: isOther('token') ? undefined : token,
    context: name,
  });
}

const context = program.command('context').description('logins that are kept on this machine');
context
  .command('list')
  .description('list them; the one that commands use is marked')
  .action(async () => (await import('./verbs/context.ts')).listContexts());
context
  .command('use <name>')
  .description('let commands use this login from now on')
  .action(async (name: string) => (await import('./verbs/context.ts')).useContext(name));

program
  .command('completion')
  .description('print what lets a shell complete the command: bash, zsh or fish')
  .argument('<shell>', 'bash, zsh or fish')
  .action(async (shell: string) => console.log((await import('./completion.ts')).completion(program, shell)));

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

const keys = program.command('keys').description('keys that sign tokens, beside a running server; and service keys');
addVerb(keys, createKeyVerb);
keys
  .command('rotate')
  .description('sign with a new key from now on; sessions go on')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (options: { data: string }) => (await import('./verbs/keys.ts')).rotateKeys(options.data));
keys
  .command('list')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (options: { data: string }) => (await import('./verbs/keys.ts')).listKeys(options.data));

const store = program.command('store').description('copies of the embedded store, on the machine of the server');
store
  .command('backup <file>')
  .description('write one consistent copy of the store while its server runs')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (file: string, options: { data: string }) =>
    (await import('./verbs/store.ts')).backUpStore(options.data, file),
  );
store
  .command('restore <file>')
  .description('put such a copy in the place of the store while its server is stopped; the former store is kept')
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .addOption(flag('--store <url>', 'the store of the server, if it has another than that of its data directory'))
  .action(async (file: string, options: { data: string; store?: string }) =>
    (await import('./verbs/store.ts')).restoreStore(options, file),
  );

const user = program
  .command('user')
  .description('accounts that cannot be reached any more; run beside a running server');
user
  .command('reset-password <email>')
  .description('give the account a new password, which is printed, and end its sessions and service keys')
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

user
  .command('end-sessions')
  .description('end every session and service key of a tenant, as after a restore of the store')
  .addOption(flag('--tenant <name>', 'tenant').default('default'))
  .addOption(flag('--data <dir>', 'data directory of the server').default('/var/lib/setpoint/server'))
  .action(async (options: { data: string; tenant: string }) =>
    (await import('./verbs/user.ts')).endSessions(options.data, options.tenant),
  );

// `setpoint get … | head`: the reader has closed the pipe. What changes something goes on to its end, and to its exit code
process.stdout.on('error', (error: Error & { code?: string }) => {
  if (error.code !== 'EPIPE') throw error;
  unread.abort(new Error('Nothing reads the output any more'));
});

showUsageAfterError(program);
try {
  await program.parseAsync();
} catch (error) {
  console.error(displayable(error instanceof Error ? error.message : String(error)));
  process.exitCode = errorCode;
}
