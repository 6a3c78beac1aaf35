import { InvalidArgumentError, Option } from 'commander';
import type { Client } from './client.ts';
import type { AdoptOptions } from './verbs/adopt.ts';
import type { ServerOptions } from './verbs/create.ts';
import type { LogsOptions } from './verbs/logs.ts';
import type * as Ports from './verbs/ports.ts';
import type { ServerChange } from './verbs/set.ts';
import type { SshKeyOptions } from './verbs/ssh-key.ts';

/** One subcommand of `setpoint` that calls the API. */
export interface Verb {
  /** Its name and arguments, as its help shows them. */
  use: string;
  text: string;
  options: readonly Option[];
  /** Whether `--project` restricts the names of objects to a project. */
  inProject: boolean;
  run(client: Client, args: readonly string[], options: object, signal: AbortSignal): Promise<void>;
}

interface Spec<A extends readonly (string | undefined)[], O> extends Omit<Verb, 'options' | 'inProject' | 'run'> {
  options?: readonly Option[];
  inProject?: false;
  run(client: Client, args: A, options: O, signal: AbortSignal): Promise<void>;
}

function verb<A extends readonly (string | undefined)[], O = object>(spec: Spec<A, O>): Verb {
  return {
    options: [],
    inProject: true,
    ...spec,
    // the cast is safe: the command line was parsed by `use` and `options`, which A and O describe
    run: (client, args, options, signal) => spec.run(client, args as unknown as A, options as O, signal),
  };
}

interface Scope {
  project?: string;
}
interface Waiting extends Scope {
  wait?: boolean;
}

const noWait = new Option('--no-wait', 'return as soon as it is accepted');
const output = new Option('-o, --output <form>', 'how it is printed').choices(['text', 'json', 'yaml']).default('text');
const yes = new Option('-y, --yes', 'do not ask');

/** Every verb, in the order of the help. Each loads its code when it runs. */
export const verbs: readonly Verb[] = [
  verb<[kind: string, name?: string], Scope & { watch?: boolean; output?: string }>({
    use: 'get <kind> [name]',
    text: 'list objects of a kind, such as applications',
    options: [
      new Option('-w, --watch', 'go on and print changes'),
      new Option('-o, --output <form>', 'how it is printed').choices(['table', 'json', 'yaml']).default('table'),
    ],
    run: async (client, [kind, name], options, signal) =>
      (await import('./verbs/get.ts')).get(client, kind, name, options, signal),
  }),
  verb<[kind: string, name: string], Scope & { output?: string }>({
    use: 'describe <kind> <name>',
    text: 'show everything about an object: conditions, events, what it waits for; a deployment is APP/NUMBER',
    options: [output],
    run: async (client, [kind, name], options) =>
      (await import('./verbs/describe.ts')).describe(client, kind, name, options),
  }),
  verb<[kind: string, name: string], Scope>({
    use: 'events <kind> <name>',
    text: 'print what happened to an object of a kind, such as an application, newest first',
    run: async (client, [kind, name], options) =>
      (await import('./verbs/events.ts')).events(client, kind, name, options),
  }),
  verb<[action: string, application: string, ...rest: string[]], Waiting & { output?: string }>({
    use: 'env <action> <application> [variables...]',
    text: 'get [NAME…], set NAME=VALUE… or unset NAME…: variables of an application; a running one is rolled out',
    options: [output, noWait],
    run: async (client, [action, name, ...rest], options, signal) =>
      (await import('./verbs/env.ts')).env(client, action, name, rest, options, signal),
  }),
  verb<[deployment: string], Waiting>({
    use: 'cancel <deployment>',
    text: 'cancel a deployment that has not come to its end: APP/NUMBER, or the newest of APP',
    options: [noWait],
    run: async (client, [name], options) => (await import('./verbs/cancel.ts')).cancel(client, name, options),
  }),
  verb<[action: string, project: string, ...rest: string[]]>({
    use: 'members <action> <project> [address] [role]',
    text: 'list, invite ADDRESS [ROLE], role ADDRESS ROLE or remove ADDRESS: who is in a project',
    inProject: false,
    run: async (client, [action, project, ...rest]) =>
      (await import('./verbs/members.ts')).members(client, action, project, rest),
  }),
  verb<[kind: string, name: string], Scope & { on?: string } & ServerOptions & SshKeyOptions>({
    use: 'create <kind> <name>',
    text: 'create an object of a kind, such as a project; prints how the agent of a server joins, and the public half of an SSH key',
    options: [
      new Option('--direct-ports', 'ports of applications are open on the server itself'),
      new Option('--address <address>', 'of the machine of a server: with --ssh-key its agent is installed by SSH'),
      new Option('--ssh-key <name>', 'the SSH key by which the machine of a server is logged in to'),
      new Option(
        '--host-key <fingerprint>',
        'the host key that the machine of a server must show, as ssh-keygen -l prints it',
      ),
      new Option('--port <number>', 'of the SSH server on the machine of a server; by default 22').argParser(port),
      new Option('--user <name>', 'as whom the machine of a server is logged in to; by default root'),
      new Option('--wait', 'print each step of the installation by SSH, until the server is active or it has failed'),
      new Option('--on <server>', 'the server of a volume; by default that of its project'),
      new Option('--generate <type>', 'the type of an SSH key; by default ed25519').choices(['ed25519', 'rsa']),
      new Option(
        '--private-key <file>',
        'import an SSH key; its passphrase is asked for, or read from standard input',
      ).conflicts(['generate', 'password']),
      new Option(
        '--password',
        'an SSH key that is a password, which is asked for, or read from standard input',
      ).conflicts('generate'),
    ],
    run: async (client, [kind, name], options, signal) =>
      (await import('./verbs/create.ts')).create(client, kind, name, options, signal),
  }),
  verb<[kind: string, name: string], { name?: string } & ServerChange & SshKeyOptions>({
    use: 'set <kind> <name>',
    text: 'change a server, or an SSH key: its name, or its secret, also while servers use it',
    inProject: false,
    options: [
      new Option('--name <name>', 'another name'),
      new Option('--address <address>', 'of the machine of a server; none takes it away'),
      new Option('--port <number>', 'of the SSH server on the machine of a server').argParser(port),
      new Option('--user <name>', 'as whom the machine of a server is logged in to'),
      new Option('--ssh-key <name>', 'by which the machine of a server is logged in to; none takes it away'),
      new Option('--log-retention-days <n>', 'how long a server keeps logs, from 1 to 365').argParser(days),
      new Option('--projects <list>', 'who may use a server: names of projects with commas between, or all').argParser(
        (text) => text.split(','),
      ),
      new Option('--generate <type>', 'replace an SSH key by a new one').choices(['ed25519', 'rsa']),
      new Option(
        '--private-key <file>',
        'replace an SSH key; the passphrase is asked for, or read from standard input',
      ).conflicts(['generate', 'password']),
      new Option(
        '--password',
        'replace an SSH key by a password, which is asked for, or read from standard input',
      ).conflicts('generate'),
    ],
    run: async (client, [kind, name], options) => (await import('./verbs/set.ts')).set(client, kind, name, options),
  }),
  verb<[server: string]>({
    use: 'join <server>',
    text: 'make a new join token for a server, and print how its agent joins',
    inProject: false,
    run: async (client, [name]) => (await import('./verbs/create.ts')).join(client, name),
  }),
  verb<[server: string], Parameters<typeof Ports.ports>[2]>({
    use: 'ports <server>',
    text: 'show which ports of a server its applications may take, and change that',
    inProject: false,
    options: [
      new Option('--open', 'applications are reachable at their ports').conflicts('close'),
      new Option('--close', 'they are not'),
      new Option('--range <from-to>', 'ports for any application, such as 1024-65535').argParser(portRange),
      new Option('--reserve <ports>', 'ports for no application, with commas between').argParser(portList),
      new Option('--release <ports>', 'ports that are neither reserved nor bound any more').argParser(portList),
      new Option('--bind <list>', 'ports for one project alone: PORT=PROJECT, with commas between').argParser(bindings),
    ],
    run: async (client, [name], options) => (await import('./verbs/ports.ts')).ports(client, name, options),
  }),
  verb<[], Waiting & { file: string; dryRun?: boolean; deploy?: boolean }>({
    use: 'apply',
    text: 'create, change and deploy what a file declares, and print what changed',
    inProject: false,
    options: [
      new Option('-f, --file <path>', 'YAML file, - for standard input').makeOptionMandatory(),
      new Option('--dry-run', 'only print what would change'),
      new Option('--no-deploy', 'create and change only: setpoint deploy starts it'),
      noWait,
    ],
    run: async (client, _args, options, signal) => (await import('./verbs/apply.ts')).apply(client, options, signal),
  }),
  verb<[application: string], Waiting>({
    use: 'deploy <application>',
    text: 'deploy an application and follow it to its end',
    options: [noWait],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/deploy.ts')).deploy(client, name, options, signal),
  }),
  verb<[application: string], Waiting>({
    use: 'rollback <application>',
    text: 'return to what served before, and follow it to its end',
    options: [noWait],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/deploy.ts')).rollback(client, name, options, signal),
  }),
  verb<[application: string], Waiting>({
    use: 'start <application>',
    text: 'let an application run; deploys it where it never ran',
    options: [noWait],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/operate.ts')).start(client, name, options, signal),
  }),
  verb<[application: string], Waiting>({
    use: 'stop <application>',
    text: 'stop an application and cancel its deployment under way',
    options: [noWait],
    run: async (client, [name], options) => (await import('./verbs/operate.ts')).stop(client, name, options),
  }),
  verb<[application: string], Waiting>({
    use: 'restart <application>',
    text: 'restart the instances of an application one after another',
    options: [noWait],
    run: async (client, [name], options) => (await import('./verbs/operate.ts')).restart(client, name, options),
  }),
  verb<[application: string, replicas: string], Waiting>({
    use: 'scale <application> <replicas>',
    text: 'set how many instances an application has; 0 stops it',
    options: [noWait],
    run: async (client, [name, replicas], options) =>
      (await import('./verbs/operate.ts')).scale(client, name, replicas, options),
  }),
  verb<[volume: string, application: string, path: string], Waiting & { readOnly?: boolean }>({
    use: 'bind <volume> <application> <path>',
    text: 'mount a volume in an application; its instances are replaced one by one',
    options: [new Option('--read-only', 'the application cannot write to it, and may have several instances'), noWait],
    run: async (client, [name, application, path], options) =>
      (await import('./verbs/volume.ts')).bind(client, name, application, path, options),
  }),
  verb<[volume: string], Scope>({
    use: 'unbind <volume>',
    text: 'take a volume from what mounts it; no data is removed',
    options: [],
    run: async (client, [name], options) => (await import('./verbs/volume.ts')).unbind(client, name, options),
  }),
  verb<[application?: string, server?: string], LogsOptions>({
    use: 'logs [application] [server]',
    text: 'print the output of an application, or of all on a server: logs server NAME; of all applications: logs -f',
    options: [
      new Option('-f, --follow', 'go on; without a name, with all applications'),
      new Option('--tail <n>', 'lines to begin with').default('200').argParser(lineCount),
      new Option('--search <text>', 'lines that have this text'),
      new Option('--level <level>', 'lines of these levels, with commas between'),
      new Option('--source <id>', 'of a server: lines of its agent (agent), or of what has this id'),
    ],
    run: async (client, [first, second], options, signal) =>
      (await import('./verbs/logs.ts')).logs(client, first, second, options, signal),
  }),
  verb<[what: string], Scope>({
    use: 'top <what>',
    text: 'print what servers or applications use now of processor, memory, disk and network, the busiest first',
    run: async (client, [what], options) => (await import('./verbs/top.ts')).top(client, what, options),
  }),
  verb<[application: string, ...command: string[]], Scope & { instance?: string; shell?: string }>({
    use: 'exec <application> [command...]',
    text: 'open a shell on a terminal in an application, or run a command: APP -- COMMAND; exits with its code',
    options: [
      new Option('--instance <id>', 'the instance; by default the first that is ready'),
      new Option('--shell <path>', 'the shell; by default the first of /bin/bash and /bin/sh that is there'),
    ],
    run: async (client, [name, ...command], options, signal) =>
      (await import('./verbs/exec.ts')).exec(client, name, command, options, signal),
  }),
  verb<[server: string], { shell?: string }>({
    use: 'shell <server>',
    text: 'open a login shell of its agent on a terminal of a server; exits with its code',
    inProject: false,
    options: [new Option('--shell <path>', 'the shell; by default that of the user of the agent')],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/exec.ts')).shell(client, name, options, signal),
  }),
  verb<[kind: string, name: string], Waiting & { yes?: boolean; force?: boolean }>({
    use: 'delete <kind> <name>',
    text: 'delete an object with what belongs to it; asks before it does',
    options: [yes, new Option('--force', 'also an environment or a server that is in use'), noWait],
    run: async (client, [kind, name], options) =>
      (await import('./verbs/delete.ts')).deleteObject(client, kind, name, options),
  }),
  verb<[server?: string], { output?: string }>({
    use: 'diagnose [server]',
    text: 'examine a server and its machine, or the control plane itself; exits with 1 if a check fails',
    inProject: false,
    options: [output],
    run: async (client, [name], options) => (await import('./verbs/diagnose.ts')).diagnose(client, name, options),
  }),
  verb<[server: string]>({
    use: 'ping <server>',
    text: 'ask the agent of a server for a sign of life',
    inProject: false,
    run: async (client, [name]) => (await import('./verbs/machine.ts')).ping(client, name),
  }),
  verb<[server: string], { output?: string }>({
    use: 'validate <server>',
    text: 'log in to the machine of a server by SSH and print whether it can be used; exits with 1 if it cannot',
    inProject: false,
    options: [output],
    run: async (client, [name], options) => (await import('./verbs/machine.ts')).validate(client, name, options),
  }),
  verb<[server: string], { wait?: boolean }>({
    use: 'provision <server>',
    text: 'try again to install the agent of a server by SSH, where that has failed, or follow it',
    inProject: false,
    options: [new Option('--wait', 'print each step, until the server is active or the provisioning has failed')],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/provision.ts')).provision(client, name, options, signal),
  }),
  verb<[server: string, fingerprint: string], { type?: string }>({
    use: 'trust-host-key <server> <fingerprint>',
    text: 'pin another host key of a server: compare it on the machine first, by ssh-keygen -l',
    inProject: false,
    options: [new Option('--type <type>', 'of the key, such as ssh-ed25519')],
    run: async (client, [name, fingerprint], options) =>
      (await import('./verbs/machine.ts')).trustHostKey(client, name, fingerprint, options),
  }),
  verb<[server: string], { check?: string[]; output?: string }>({
    use: 'heal <server>',
    text: 'heal what Setpoint itself may: it removes nothing that runs and nothing with data',
    inProject: false,
    options: [new Option('--check <names...>', 'only what these checks found, such as disk'), output],
    run: async (client, [name], options) => (await import('./verbs/diagnose.ts')).heal(client, name, options),
  }),
  verb<[server: string], { expect?: string; wait?: boolean }>({
    use: 'update-agent <server>',
    text: 'let the agent of a server update itself to the release of the control plane; workloads go on',
    inProject: false,
    options: [new Option('--expect <version>', 'fail unless the release has this version'), noWait],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/update-agent.ts')).updateAgent(client, name, options, signal),
  }),
  verb<[server: string], AdoptOptions>({
    use: 'adopt <server>',
    text: 'show what runs on a server that is not of Setpoint, and plan how it moves in; with --take, take it over',
    options: [
      new Option('--take <names...>', 'make applications and volumes of these entries of the plan, in --project'),
      new Option('--environment <name>', 'where to, in --project: by default its default one'),
      new Option('--deploy', 'deploy what was made, too'),
      new Option('--wait', 'wait for these deployments'),
      new Option('--manifests', 'print a file for setpoint apply').conflicts('take'),
      output,
    ],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/adopt.ts')).adopt(client, name, options, signal),
  }),
  verb<[server: string]>({
    use: 'confirm-removals <server>',
    text: 'let a server remove the instances that a restored store does not know',
    inProject: false,
    run: async (client, [name]) => (await import('./verbs/confirm-removals.ts')).confirmRemovals(client, name),
  }),
  verb<[]>({
    use: 'limits',
    text: 'print what is used of the budgets: of oneself, of the projects that one may see, for admins of the tenant',
    inProject: false,
    run: async (client) => (await import('./verbs/limits.ts')).limits(client),
  }),
  verb<[action: string, ...changes: string[]]>({
    use: 'settings <action> [changes...]',
    text: 'get: what holds in the tenant; set NAME=VALUE…: change it, with an empty value back to the default',
    inProject: false,
    run: async (client, [action, ...changes]) =>
      (await import('./verbs/settings.ts')).settings(client, action, changes),
  }),
  verb<[]>({
    use: 'password',
    text: 'choose another password for the account, or a first one; read from the terminal or from standard input',
    inProject: false,
    run: async (client) => (await import('./verbs/password.ts')).changePassword(client),
  }),
  verb<[action: 'list' | 'verify'], Scope & { user?: string; result?: string; since?: string; known?: string }>({
    use: 'audit <action>',
    text: 'list: who did what, the newest 100; verify: whether the log is as it was written',
    options: [
      new Option('--user <id or e-mail>', 'list: of this user only'),
      new Option('--result <result>', 'list: only what was done, refused, or failed').choices([
        'ok',
        'refused',
        'failed',
      ]),
      new Option('--since <time>', 'list: not before this time, such as 2030-01-31T00:00:00Z'),
      new Option('--known <seq:hash>', 'verify: a head that was noted before'),
    ],
    run: async (client, [action], options) => (await import('./verbs/audit.ts')).audit(client, action, options),
  }),
];

function port(text: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 65_535) throw new InvalidArgumentError('A port is a number from 1 to 65535.');
  return number;
}

function days(text: string): number {
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 365) throw new InvalidArgumentError('It must be a number of days from 1 to 365.');
  return number;
}

function portList(text: string): number[] {
  return text.split(',').map(port);
}

function portRange(text: string): { from: number; to: number } {
  const [from = '', to = '', ...more] = text.split('-');
  if (more.length > 0) throw new InvalidArgumentError('It must be two ports, such as 1024-65535.');
  return { from: port(from), to: port(to) };
}

function bindings(text: string): { port: number; project: string }[] {
  return text.split(',').map((one) => {
    const at = one.indexOf('=');
    if (at < 1 || at === one.length - 1) throw new InvalidArgumentError('It must be PORT=PROJECT, such as 80=shop.');
    return { port: port(one.slice(0, at)), project: one.slice(at + 1) };
  });
}

function lineCount(text: string): string {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('It must be a number of lines, such as 200.');
  return text;
}

/** Registered below `setpoint keys`, next to the keys of the installation. */
export const createKeyVerb = verb<[name: string], Scope & { scope?: string[]; expires?: string }>({
  use: 'create <name>',
  text: 'create a service key of your account, and print it this once; --project narrows it to that project',
  options: [
    new Option('--scope <scopes...>', 'what it may: read, deploy, write, admin (all that you may)'),
    new Option('--expires <time>', 'when it ends, such as 2030-01-31T00:00:00Z (never)'),
  ],
  run: async (client, [name], options) =>
    (await import('./verbs/create-key.ts')).createServiceKey(client, name, options),
});
