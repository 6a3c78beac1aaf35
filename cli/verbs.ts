import { InvalidArgumentError, Option } from 'commander';
import { GrantedCapability } from '../agent-protocol/workload.ts';
import type { Client } from './client.ts';
import type { AdoptOptions } from './verbs/adopt.ts';
import type { ComposeOptions } from './verbs/compose.ts';
import type { ServerOptions } from './verbs/create.ts';
import type { DomainOptions } from './verbs/domains.ts';
import type { LogsOptions } from './verbs/logs.ts';
import type { TrafficOptions } from './verbs/traffic.ts';
import type { ArchiveOptions, DatabaseChange, DatabaseOptions } from './verbs/db.ts';
import type { FunctionOptions } from './verbs/function.ts';
import type { PreviewOptions } from './verbs/preview.ts';
import type * as Ports from './verbs/ports.ts';
import type * as Run from './verbs/run.ts';
import type { DeclareOptions } from './verbs/declare.ts';
import type { ServerChange } from './verbs/set.ts';
import type { DestinationOptions } from './verbs/destination.ts';
import type { GitCredentialOptions } from './verbs/git-credential.ts';
import type { RegistryOptions } from './verbs/registry.ts';
import type { SshKeyOptions } from './verbs/ssh-key.ts';
import type { SyncOptions } from './verbs/sync.ts';
import type { ChangeOptions, InstantiateOptions, UpgradeOptions } from './verbs/template.ts';
import type { WebhookOptions } from './verbs/webhook.ts';

/** One subcommand of `setpoint` that calls the API. */
export interface Verb {
  /** Its name and arguments, as its help shows them. */
  use: string;
  text: string;
  options: readonly Option[];
  /** Whether `--project` restricts the names of objects to a project. */
  inProject: boolean;
  /**
   * It prints until its signal aborts, as what it follows has no end of its own, or ends with what is printed. A function
   * says with which arguments.
   */
  endsWithReader?: true | ((args: readonly string[]) => boolean);
  /** The exit code of an error, if 1 says something else. */
  errorCode?: number;
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

/** Of values that no other program of the machine is to see, as it does what is on the command line. */
const secret = new Option(
  '--secret <names...>',
  'variables whose values are asked for, or read from standard input: all of it for one name, a line for each of several',
);
const noWait = new Option('--no-wait', 'return as soon as it is accepted');
const output = new Option('-o, --output <form>', 'how it is printed').choices(['text', 'json', 'yaml']).default('text');
const yes = new Option('-y, --yes', 'do not ask');
const gitCredentialOptions = [
  new Option('--host <host>', 'of a git credential: the host, with its port if that is unusual, that it is sent to'),
  new Option('--access-token', 'a git credential by https, which is asked for, or read from standard input').conflicts([
    'generate',
    'privateKey',
    'hostKeys',
  ]),
  new Option(
    '--username <name>',
    'of a registry; of a git credential what a token is sent with, by default x-access-token',
  ),
  new Option(
    '--ca <file>',
    'certificate of the authority of a git host that servers do not trust, or of a destination; none takes it away',
  ),
  new Option('--host-keys <file>', 'what the git host may show by ssh, as ssh-keyscan prints it'),
  new Option(
    '--projects <list>',
    'who may use a server, a git credential or a registry: names of projects with commas between, or all',
  ).argParser((text) => text.split(',')),
  new Option('--untested', 'keep a registry without a login, as one that only servers reach'),
];

/** Of what is planned before it is done. */
const planning = [
  new Option('--dry-run', 'only print the plan'),
  new Option('--force <keys...>', 'steps that may lose data, by their keys in the plan'),
];

const bucketProviders = ['s3', 'r2', 'minio', 'b2', 'wasabi', 'custom'];

/** Of a backup destination; of a text, `none` takes it away. */
const destinationOptions = [
  new Option('--bucket <name>', 'of a destination'),
  new Option('--region <name>', 'of the bucket of a destination'),
  new Option('--endpoint <url>', 'of a destination, if it is not the usual one of its provider'),
  new Option('--account-id <id>', 'of a destination of provider r2'),
  new Option('--jurisdiction <name>', 'of a destination of provider r2, such as eu'),
  new Option('--path-prefix <prefix>', 'what all keys in the bucket of a destination begin with'),
  new Option(
    '--path-style <yes|no>',
    'the bucket of a destination is in the path, not in the name of the host',
  ).choices(['yes', 'no']),
  new Option('--storage-class <name>', 'in which a destination keeps what is written to it'),
  new Option('--access-key <id>', 'of a destination; its secret key is asked for, or read from standard input'),
];

const webhookOptions = [
  new Option('--provider <name>', 'who calls a webhook; or whose the bucket of a destination is').choices([
    'github',
    'gitlab',
    'gitea',
    'bitbucket',
    'generic',
    ...bucketProviders,
  ]),
  new Option('--repository <url>', 'the repository of a webhook'),
  new Option('--previews <environment>', 'of a webhook: its requests get previews, copies of this one; none: none'),
];

const functionOptions = [
  new Option('--dependencies <file>', 'what the code of a function needs, as JSON in the form of its runtime'),
  new Option('--schedule <cron>', 'when a function is called, such as "30 3 * * *"'),
  new Option('--timezone <name>', 'of --schedule, such as Europe/Berlin; by default UTC'),
];

/** Every verb, in the order of the help. Each loads its code when it runs. */
export const verbs: readonly Verb[] = [
  verb<[kind: string, name?: string], Scope & { watch?: boolean; output?: string }>({
    use: 'get <kind> [name]',
    endsWithReader: true,
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
  verb<[action: string, application: string, ...rest: string[]], Waiting & { output?: string; secret?: string[] }>({
    use: 'env <action> <application> [variables...]',
    text: 'get [NAME…], set NAME=VALUE… or unset NAME…: variables of an application; a running one is rolled out',
    options: [secret, output, noWait],
    run: async (client, [action, name, ...rest], options, signal) =>
      (await import('./verbs/env.ts')).env(client, action, name, rest, options, signal),
  }),
  verb<[deployment: string], Waiting>({
    use: 'cancel <deployment>',
    text: 'cancel a deployment that has not come to its end: APP/NUMBER, or the newest of APP',
    options: [noWait],
    run: async (client, [name], options) => (await import('./verbs/cancel.ts')).cancel(client, name, options),
  }),
  verb<[action: string, application: string, address?: string], DomainOptions>({
    use: 'domains <action> <application> [address]',
    text: 'list, add HOST[/PATH] or remove HOST[/PATH]: which domains lead to an application; needs no deployment',
    options: [
      new Option('--service <name>', 'of an application with several services: where requests go'),
      new Option('--port <number>', 'the port that requests go to').argParser(port),
      new Option('--tls <mode>', 'by default on').choices(['on', 'internal', 'off']),
      new Option('--redirect-to <address>', 'answer with this address'),
    ],
    run: async (client, [action, name, address], options) =>
      (await import('./verbs/domains.ts')).domains(client, action, name, address, options),
  }),
  verb<[action: string, project: string, ...rest: string[]]>({
    use: 'members <action> <project> [address] [role]',
    text: 'list, invite ADDRESS [ROLE], role ADDRESS ROLE or remove ADDRESS: who is in a project',
    inProject: false,
    run: async (client, [action, project, ...rest]) =>
      (await import('./verbs/members.ts')).members(client, action, project, rest),
  }),
  verb<
    [kind: string, name?: string],
    Scope & { on?: string; file?: string } & ServerOptions &
      SshKeyOptions &
      GitCredentialOptions &
      RegistryOptions &
      WebhookOptions &
      DatabaseOptions &
      FunctionOptions &
      DestinationOptions
  >({
    use: 'create <kind> [name]',
    text: 'create an object of a kind, such as a project; prints how the agent of a server joins, the public half of an SSH key or a deploy key, and the address and secret of a webhook',
    options: [
      new Option('--direct-ports', 'ports of applications are open on the server itself'),
      new Option(
        '--address <address>',
        'of a registry, such as registry.example.com:5000; or of the machine of a server: with --ssh-key its agent is installed by SSH',
      ),
      new Option('--ssh-key <name>', 'the SSH key by which the machine of a server is logged in to'),
      new Option(
        '--host-key <fingerprint>',
        'the host key that the machine of a server must show, as ssh-keygen -l prints it',
      ),
      new Option('--port <number>', 'of the SSH server on the machine of a server; by default 22').argParser(port),
      new Option('--user <name>', 'as whom the machine of a server is logged in to; by default root'),
      new Option('--wait', 'print each step of the installation by SSH, until the server is active or it has failed'),
      new Option('--on <server>', 'the server of a volume, a database or a function; by default that of its project'),
      new Option('--type <type>', 'of a database').choices(['postgres', 'mysql', 'mariadb', 'redis', 'mongodb']),
      new Option('--engine-version <version>', 'of a database, such as 17; by default the usual one'),
      new Option('--memory <size>', 'the most memory of a database or a function, such as 512m'),
      new Option('--cpus <number>', 'the most processors of a database or a function, such as 0.5'),
      new Option('--exposed <port>', 'a port of its server that leads to a database or a function').argParser(port),
      new Option('--pooling', 'clients may share connections to a database of PostgreSQL, by PgBouncer beside it'),
      new Option('--require-tls', 'clients may connect to a database of PostgreSQL, MySQL or MariaDB by TLS alone'),
      new Option('--runtime <name>', 'of a function').choices(['node20', 'python3', 'go', 'bun', 'deno']),
      ...functionOptions,
      new Option('--generate <type>', 'the type of an SSH key; by default ed25519').choices(['ed25519', 'rsa']),
      new Option(
        '--private-key <file>',
        'import an SSH key; its passphrase is asked for, or read from standard input',
      ).conflicts(['generate', 'password']),
      new Option(
        '--password',
        'an SSH key that is a password, which is asked for, or read from standard input',
      ).conflicts('generate'),
      ...gitCredentialOptions,
      ...destinationOptions,
      ...webhookOptions,
      new Option('--secret', 'of a webhook: it is asked for, or read from standard input; by default one is made'),
      new Option(
        '-f, --file <path>',
        'of a template its text, whose name it has by default, of a function its code; - for standard input',
      ),
    ],
    run: async (client, [kind, name], options, signal) =>
      (await import('./verbs/create.ts')).create(client, kind, name, options, signal),
  }),
  verb<
    [kind: string, name: string],
    Scope & { name?: string } & ServerChange &
      DatabaseChange &
      SshKeyOptions &
      GitCredentialOptions &
      RegistryOptions &
      DestinationOptions &
      WebhookOptions
  >({
    use: 'set <kind> <name>',
    text: 'change a server, a database, an SSH key, a git credential, a registry, a backup destination or a webhook: its name, or its secret, also while it is used',
    options: [
      new Option('--name <name>', 'another name'),
      new Option('--address <address>', 'of a registry; or of the machine of a server, where none takes it away'),
      new Option('--port <number>', 'of the SSH server on the machine of a server').argParser(port),
      new Option('--user <name>', 'as whom the machine of a server is logged in to'),
      new Option('--ssh-key <name>', 'by which the machine of a server is logged in to; none takes it away'),
      new Option('--log-retention-days <n>', 'how long a server keeps logs, from 1 to 365').argParser(days),
      new Option('--ingress <on|off>', 'the proxy of a server, which leads domains to its applications').choices([
        'on',
        'off',
      ]),
      new Option('--acme-email <address>', 'whom the authority of certificates warns; none takes it away'),
      new Option('--memory <size>', 'the most memory of a database; none takes the limit away'),
      new Option('--cpus <number>', 'the most processors of a database; none takes the limit away'),
      new Option('--exposed <port>', 'a port of its server that leads to a database; none takes it away').argParser(
        (text) => (text === 'none' ? text : port(text)),
      ),
      new Option('--pooling <on|off>', 'whether clients may share connections to a database of PostgreSQL').choices([
        'on',
        'off',
      ]),
      new Option('--require-tls <on|off>', 'whether clients may connect to a database by TLS alone').choices([
        'on',
        'off',
      ]),
      new Option('--generate <type>', 'replace an SSH key by a new one').choices(['ed25519', 'rsa']),
      new Option(
        '--private-key <file>',
        'replace an SSH key; the passphrase is asked for, or read from standard input',
      ).conflicts(['generate', 'password']),
      new Option(
        '--password',
        'replace an SSH key by a password, or that of a registry, which is asked for, or read from standard input',
      ).conflicts('generate'),
      ...gitCredentialOptions,
      ...destinationOptions,
      new Option('--secret-key', 'replace that of a destination, which is asked for, or read from standard input'),
      ...webhookOptions,
      new Option('--secret', 'replace the secret of a webhook, which is asked for, or read from standard input'),
      new Option(
        '--new-secret',
        'replace the secret of a webhook by one that is made, and print it this once',
      ).conflicts('secret'),
    ],
    run: async (client, [kind, name], options) => (await import('./verbs/set.ts')).set(client, kind, name, options),
  }),
  verb<[kind: string, name: string]>({
    use: 'test <kind> <name>',
    text: 'log in to a registry with what is kept of it, and print what came of it',
    inProject: false,
    run: async (client, [kind, name]) => (await import('./verbs/registry.ts')).testRegistry(client, kind, name),
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
  verb<[], DeclareOptions & { wait?: boolean }>({
    use: 'apply',
    text: 'create, change and deploy what a file declares; with --project all of it as one plan, also of a folder',
    inProject: false,
    options: [
      new Option('--project <name>', 'the project of all that is declared'),
      new Option(
        '-f, --file <path>',
        'YAML file, - for standard input; with --project also a folder',
      ).makeOptionMandatory(),
      new Option('--dry-run', 'only print what would change'),
      new Option('--no-deploy', 'create and change only: setpoint deploy starts it'),
      new Option('--prune <set>', 'with --project: delete what this set had before and does not declare any more'),
      new Option('--set <set>', 'with --project: what the objects belong to, for a later --prune'),
      new Option('--manager <name>', 'with --project: who declares, by default apply'),
      new Option('--force <keys...>', 'with --project: steps that may lose data or overwrite what others have set'),
      noWait,
    ],
    run: async (client, _args, options, signal) =>
      options.project === undefined
        ? (await import('./verbs/apply.ts')).apply(client, options, signal)
        : (await import('./verbs/declare.ts')).declare(client, options),
  }),
  verb<[], DeclareOptions>({
    use: 'diff',
    text: 'print what applying a file or a folder to --project would change; exits with 1 if that is anything, with 2 for an error',
    errorCode: 2,
    options: [
      new Option('-f, --file <path>', 'YAML file, - for standard input, or a folder').makeOptionMandatory(),
      new Option('--manager <name>', 'who declares, by default apply'),
    ],
    run: async (client, _args, options) => (await import('./verbs/declare.ts')).diff(client, options),
  }),
  verb<[project: string]>({
    use: 'export <project>',
    text: 'print what is in a project as a text that applies back to no change; what is left out on standard error',
    inProject: false,
    run: async (client, [name]) => (await import('./verbs/declare.ts')).exportProject(client, name),
  }),
  verb<[path?: string]>({
    use: 'explain [path]',
    text: 'print which kinds can be declared, the fields of one, or what is below a field, such as application.domains',
    inProject: false,
    run: async (client, [path], _options, signal) => (await import('./verbs/explain.ts')).explain(client, path, signal),
  }),
  verb<[action: 'check', file: string], ComposeOptions>({
    use: 'compose <action> <file>',
    text: 'check: print what a compose file declares, and what of it is refused or means something else',
    inProject: false,
    options: [
      new Option('--env <NAME=VALUE...>', 'variables of the application: the file can use no others').argParser(
        variable,
      ),
      new Option('--in-repository', 'the file is in a git repository: services may be built of it'),
      output,
    ],
    run: async (client, [action, file], options) =>
      (await import('./verbs/compose.ts')).compose(client, action, file, options),
  }),
  verb<[webhook: string, delivery?: string], Scope & { output?: string }>({
    use: 'deliveries <webhook> [delivery]',
    text: 'print what a git host sent to a webhook, newest first, and what was decided; or all of one delivery',
    options: [output],
    run: async (client, [name, delivery], options) =>
      (await import('./verbs/webhook.ts')).deliveries(client, name, delivery, options),
  }),
  verb<[webhook: string, delivery?: string], Scope>({
    use: 'replay <webhook> [delivery]',
    text: 'decide a delivery of a webhook again, by default the newest',
    run: async (client, [name, delivery], options) =>
      (await import('./verbs/webhook.ts')).replay(client, name, delivery, options),
  }),
  verb<[application: string], Waiting>({
    use: 'deploy <application>',
    text: 'deploy an application and follow it to its end',
    options: [noWait],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/deploy.ts')).deploy(client, name, options, signal),
  }),
  verb<[application: string], Scope & { output?: string }>({
    use: 'dockerfile <application>',
    text: 'print the Dockerfile that is generated for an application where dockerfile_path is auto; builds nothing',
    options: [
      new Option('-o, --output <file>', 'write it to a file that does not exist yet, to take it into the repository'),
    ],
    run: async (client, [name], options) => (await import('./verbs/dockerfile.ts')).dockerfile(client, name, options),
  }),
  verb<[name: string], Waiting & ChangeOptions & { to?: string; instance?: boolean }>({
    use: 'rollback <name>',
    text: 'return an application to what served before, and follow it to its end; with --instance a template instance',
    options: [
      new Option('--to <number>', 'the number of a deployment that succeeded, or of a former revision of an instance'),
      new Option('--instance', 'the name is that of a template instance; prints the plan first'),
      ...planning,
      noWait,
    ],
    run: async (client, [name], options, signal) =>
      options.instance === true
        ? (await import('./verbs/template.ts')).rollBackInstance(client, name, options)
        : (await import('./verbs/deploy.ts')).rollback(client, name, options, signal),
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
  verb<[application: string, ...capabilities: string[]], Waiting>({
    use: 'grant <application> <capabilities...>',
    text: `give further capabilities of the kernel to the instances of an application: ${GrantedCapability.options.join(', ')}`,
    options: [noWait],
    run: async (client, [name, ...capabilities], options) =>
      (await import('./verbs/grant.ts')).grant(client, name, capabilities, options),
  }),
  verb<[application: string, ...capabilities: string[]], Waiting>({
    use: 'revoke <application> <capabilities...>',
    text: 'take capabilities of the kernel away from the instances of an application that were granted to them',
    options: [noWait],
    run: async (client, [name, ...capabilities], options) =>
      (await import('./verbs/grant.ts')).revoke(client, name, capabilities, options),
  }),
  verb<[volume: string, workload: string, path: string], Waiting & { readOnly?: boolean; function?: boolean }>({
    use: 'bind <volume> <application> <path>',
    text: 'mount a volume in an application or a function; its instances are replaced one by one',
    options: [
      new Option('--read-only', 'nothing can write to it there, and an application may have several instances'),
      new Option('--function', 'what mounts it is a function: all its instances share it'),
      noWait,
    ],
    run: async (client, [name, workload, path], options) =>
      (await import('./verbs/volume.ts')).bind(client, name, workload, path, options),
  }),
  verb<[volume: string], Scope>({
    use: 'unbind <volume>',
    text: 'take a volume from what mounts it; no data is removed',
    options: [],
    run: async (client, [name], options) => (await import('./verbs/volume.ts')).unbind(client, name, options),
  }),
  verb<[application?: string, name?: string], LogsOptions>({
    use: 'logs [application] [server|database]',
    endsWithReader: true,
    text: 'print the output of an application; logs database NAME: of a database; logs server NAME: of all on a server; logs -f: of all applications',
    options: [
      new Option('-f, --follow', 'go on; without a name, with all applications'),
      new Option('--tail <n>', 'lines to begin with').default('200').argParser(lineCount),
      new Option('--search <text>', 'lines that have this text'),
      new Option('--level <level>', 'lines of these levels, with commas between'),
      new Option('--source <id>', 'of a server: lines of its agent (agent), or of what has this id'),
      new Option('--instance <id>', 'of an application: lines of one instance'),
      new Option('--service <name>', 'of an application of a compose file: lines of one service'),
      new Option('--previous', 'of an application: lines of the deployment before the one that serves'),
    ],
    run: async (client, [first, second], options, signal) =>
      (await import('./verbs/logs.ts')).logs(client, first, second, options, signal),
  }),
  verb<[what: string], Scope>({
    use: 'top <what>',
    text: 'print what servers or applications use now of processor, memory, disk and network, the busiest first',
    run: async (client, [what], options) => (await import('./verbs/top.ts')).top(client, what, options),
  }),
  verb<[application: string], TrafficOptions>({
    use: 'traffic <application>',
    endsWithReader: true,
    text: 'print the requests to an application by its domains: statuses, latencies, bytes; by steps, then by instances',
    options: [
      new Option('-f, --follow', 'go on, every 5 s'),
      new Option('--since <time>', 'from when on: at most the last hour, as 15m').default('15m'),
      new Option('--step <time>', 'from 5s to 1h').default('1m'),
    ],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/traffic.ts')).traffic(client, name, options, signal),
  }),
  verb<[application: string, ...command: string[]], Scope & { instance?: string; shell?: string }>({
    use: 'exec <application> [command...]',
    endsWithReader: true,
    text: 'open a shell on a terminal in an application, or run a command: APP -- COMMAND; exits with its code',
    options: [
      new Option('--instance <id>', 'the instance; by default the first that is ready'),
      new Option('--shell <path>', 'the shell; by default the first of bash, ash, sh and busybox that is there'),
    ],
    run: async (client, [name, ...command], options, signal) =>
      (await import('./verbs/exec.ts')).exec(client, name, command, options, signal),
  }),
  verb<[application: string, ...command: string[]], Scope & Omit<Run.RunOptions, 'project'>>({
    use: 'run <application> [command...]',
    endsWithReader: true,
    text: 'run a command once in a container of its own, as the application is deployed: APP -- COMMAND; exits with its code',
    options: [
      new Option('--timeout <seconds>', 'how long it may take; by default 3600').argParser(seconds),
      new Option('--env <pairs...>', 'further variables: NAME=VALUE'),
      secret,
      new Option('--read-only-volumes', 'also while instances run that may write to a volume'),
      new Option('--detach', 'do not wait for its end'),
    ],
    run: async (client, [name, ...command], options, signal) =>
      (await import('./verbs/run.ts')).run(client, name, command, options, signal),
  }),
  verb<[server: string], { shell?: string }>({
    use: 'shell <server>',
    endsWithReader: true,
    text: 'open a login shell of its agent on a terminal of a server; exits with its code',
    inProject: false,
    options: [new Option('--shell <path>', 'the shell; by default that of the user of the agent')],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/exec.ts')).shell(client, name, options, signal),
  }),
  verb<[action: string, name?: string], Waiting & PreviewOptions>({
    use: 'preview <action> [name]',
    text: 'list; create NAME: copy an environment for a branch; approve NAME: a commit of a fork; extend NAME: its time; delete NAME',
    options: [
      new Option('--branch <branch>', 'create: what is shown'),
      new Option('--environment <name>', 'create: what is copied, in --project; by default the default environment'),
      new Option('--repository <url>', 'create: of the applications that have the branch, if there are several'),
      new Option('--fork <url>', 'create: the branch is of this repository, and waits for an approval'),
      new Option('--commit <id>', 'create: of a fork; approve: the commit that was looked at'),
      new Option('--request <number>', 'create: of the pull request or merge request').argParser(requestNumber),
      new Option(
        '--ttl <hours>',
        'create, extend: how long it lives from now on; created, by default a week',
      ).argParser(hours),
      yes,
      noWait,
    ],
    run: async (client, [action, name], options, signal) =>
      (await import('./verbs/preview.ts')).preview(client, action, name, options, signal),
  }),
  verb<
    [action: string, name: string],
    Waiting & FunctionOptions & { data?: string; method?: string; path?: string; number?: number; tail?: string }
  >({
    use: 'fn <action> <function>',
    text: 'deploy: build a version of a function and let it serve; start, stop; invoke: call it; executions: its calls; versions; logs: what it wrote, or with --number how that version was built',
    options: [
      new Option('-f, --file <path>', 'deploy: other code, - for standard input'),
      ...functionOptions,
      new Option('--number <number>', 'deploy: a version that was built before; logs: how it was built').argParser(
        requestNumber,
      ),
      new Option('--data <text>', 'invoke: what it is called with; @FILE: the content of a file'),
      new Option('--method <method>', 'invoke: by default POST'),
      new Option('--path <path>', 'invoke: by default /'),
      new Option('--tail <number>', 'logs: how many lines, by default 200').argParser(lineCount),
      noWait,
    ],
    run: async (client, [action, name], options) =>
      (await import('./verbs/function.ts')).fn(client, action, name, options),
  }),
  verb<
    [action: string, database: string, ...values: string[]],
    Waiting &
      ArchiveOptions & {
        tail?: string;
        port?: number;
        password?: boolean;
        file?: string;
        url?: string;
        path?: string;
        yes?: boolean;
      }
  >({
    use: 'db <action> <database> [values...]',
    endsWithReader: ([action]) => action === 'shell' || action === 'logs',
    text: 'start, stop, restart; credentials: how clients log in; connect: an address of this machine that leads to it; rotate-password: another password; parameters [NAME=VALUE…]: of its engine; import: a dump that was made elsewhere; logs: what it wrote; shell: its own client, logged in; archive, unarchive: whether it can be brought to any instant; window: to which ones',
    options: [
      new Option('--tail <number>', 'logs: how many lines, by default 200').argParser(lineCount),
      new Option('--port <number>', 'connect: of this machine; by default a free one').argParser(port),
      new Option('--password', 'rotate-password: ask for the password, in place of a generated one'),
      new Option('--file <file>', 'import: a file of this machine').conflicts(['url', 'path']),
      new Option('--url <address>', 'import: what the server of the database fetches').conflicts('path'),
      new Option('--path <path>', 'import: a file below the folder for imports of the server'),
      new Option('--to <destination>', 'archive: by default the only one that there is'),
      new Option('--every <cron>', 'archive: when base backups are made, in UTC; by default once a day'),
      new Option('--keep <number>', 'archive: base backups that stay, by default 7').argParser(keptBackups),
      yes,
      noWait,
    ],
    run: async (client, [action, name, ...values], options, signal) =>
      (await import('./verbs/db.ts')).db(client, action, name, values, options, signal),
  }),
  verb<
    [name: string],
    Waiting & {
      to?: string;
      every?: string;
      timezone?: string;
      keep?: number;
      verify?: string;
      destination?: string;
      on?: string;
    }
  >({
    use: 'backup <name>',
    text: 'back up a database, a volume or the volumes of an application to a bucket, now or, with --every, again and again; import --destination NAME: take up what another installation made',
    options: [
      new Option('--destination <name>', 'import: the bucket that has them'),
      new Option('--on <server>', 'import: where they are restored; by default that of the project'),
      new Option('--to <destination>', 'by default the only one that there is'),
      new Option('--every <cron>', 'minute, hour, day of the month, month, day of the week, such as "30 3 * * *"'),
      new Option('--timezone <name>', 'of --every, such as Europe/Berlin; by default UTC'),
      new Option('--keep <number>', 'of --every: good backups that stay, by default 7').argParser(keptBackups),
      new Option('--verify <time>', 'of --every: restore the newest one for trial after so long, such as 7d or 2w'),
      noWait,
    ],
    run: async (client, [name], options) => (await import('./verbs/backup.ts')).backup(client, name, options),
  }),
  verb<[action: string, schedule: string], Waiting>({
    use: 'schedule <action> <schedule>',
    text: 'run: back up by a schedule now, pause it, or resume it; a schedule is named by what it backs up, or by its id',
    options: [noWait],
    run: async (client, [action, name], options) =>
      (await import('./verbs/schedule.ts')).schedule(client, action, name, options),
  }),
  verb<
    [backup: string],
    Waiting & { into?: string; as?: string; for?: string; function?: boolean; at?: string; yes?: boolean }
  >({
    use: 'restore <backup>',
    text: 'bring a backup back into its database or its volume, beside what is there; asks before it does',
    options: [
      new Option('--into <database>', 'another one of the same type, version and user').conflicts('as'),
      new Option('--as <name>', 'a new database or volume, beside the one that it is of'),
      new Option('--for <application>', 'of a volume: a new one, which this application mounts'),
      new Option('--function', 'of --for: it names a function'),
      new Option('--at <path>', 'of --for: where it is mounted'),
      yes,
      noWait,
    ],
    run: async (client, [name], options) => (await import('./verbs/restore.ts')).restore(client, name, options),
  }),
  verb<[backup: string], Waiting>({
    use: 'verify <backup>',
    text: 'restore a backup for trial: beside what is there, read to its end, and removed again',
    options: [noWait],
    run: async (client, [name], options) => (await import('./verbs/verify.ts')).verify(client, name, options),
  }),
  verb<[database: string], Waiting & { to?: string; as?: string }>({
    use: 'pitr <database>',
    text: 'bring a copy of a database whose writes are archived to an instant, beside what it serves',
    options: [
      new Option('--to <time>', 'the instant, within its recovery window, such as 2026-11-27T01:30:00Z'),
      new Option('--as <name>', 'as a new database, which serves it at once'),
      noWait,
    ],
    run: async (client, [name], options) => (await import('./verbs/recover.ts')).pitr(client, name, options),
  }),
  verb<[database: string], Scope & { back?: string; yes?: boolean }>({
    use: 'switch <database>',
    text: 'let a database serve what setpoint pitr recovered for it; asks before it does',
    options: [new Option('--back <volume>', 'the id of a former volume of it, to go back to'), yes],
    run: async (client, [name], options) => (await import('./verbs/recover.ts')).switchTo(client, name, options),
  }),
  verb<[action?: string, name?: string], { file?: string; onConflict?: string; output?: string }>({
    use: 'templates [action] [name]',
    text: 'list; check: what the text of --file declares and what is wrong with it; export NAME: print it as a file for import; import: that of --file',
    inProject: false,
    options: [
      new Option('-f, --file <path>', 'check, import: the file, - for standard input'),
      new Option('--on-conflict <what>', 'import: what becomes of it if there is one of that name').choices([
        'fail',
        'rename',
        'replace',
      ]),
      output,
    ],
    run: async (client, [action, name], options, signal) =>
      (await import('./verbs/template.ts')).templates(client, action ?? 'list', name, options, signal),
  }),
  verb<[template: string], Waiting & InstantiateOptions>({
    use: 'instantiate <template>',
    text: 'make what a template declares, in --project, and print how far each part of it is',
    options: [
      new Option('--set <pairs...>', 'values of its variables: NAME=VALUE').argParser(variable),
      secret,
      new Option('--name <name>', 'what the names of all that is made begin with; by default that of the template'),
      new Option('--environment <name>', 'by default the default one of the project'),
      new Option('--on <server>', 'by default that of the project'),
      noWait,
    ],
    run: async (client, [name], options) => (await import('./verbs/template.ts')).instantiate(client, name, options),
  }),
  verb<[instance: string], Waiting & UpgradeOptions>({
    use: 'upgrade <instance>',
    text: 'bring a template instance to the present text of its template and to other values; prints the plan first',
    options: [
      new Option('--template <name>', 'to the text of another template').conflicts('keepText'),
      new Option('--keep-text', 'keep its text: only values change'),
      new Option('--set <pairs...>', 'values of its variables that change: NAME=VALUE').argParser(variable),
      secret,
      new Option('--drift <policy>', 'what becomes of fields that are changed by hand').choices([
        'warn',
        'correct',
        'ignore',
      ]),
      ...planning,
      noWait,
    ],
    run: async (client, [name], options) => (await import('./verbs/template.ts')).upgrade(client, name, options),
  }),
  verb<[action: string, name?: string], Waiting & SyncOptions>({
    use: 'sync <action> [name]',
    text: 'list; create NAME: keep a project as the files of a repository declare it; show NAME: what differs, and its last commits; set NAME: its variables, its branch or its tags; run NAME: apply the head of the branch, or the newest tag, now; rollback NAME: apply the commit before, and stay with it; release NAME: follow the repository again; pause NAME; resume NAME; delete NAME: what it made stays',
    options: [
      new Option('--repository <url>', 'create: where the files are'),
      new Option('--branch <branch>', 'create, set: the branch that is followed; create: by default main'),
      new Option(
        '--tag-pattern <pattern>',
        'create, set: the newest tag of this name is followed in place of a branch, as v1.*',
      ),
      new Option('--path <path>', 'create: a file or a folder of the repository; by default all of it'),
      new Option('--git-credential <name>', 'create: what the repository is read with'),
      new Option('--on <server>', 'create: whose agent reads the repository; by default that of the project'),
      new Option('--environment <name>', 'create: where objects are that name none'),
      new Option('--interval <seconds>', 'create: between two looks at the repository').argParser(requestNumber),
      new Option('--no-prune', 'create: what is not declared any more stays'),
      new Option('--drift <policy>', 'create: what becomes of changes by hand').choices(['warn', 'correct']),
      new Option('--force <keys...>', 'run: steps that may lose data, or overwrite what others have set'),
      new Option('--commit <commit>', 'run: refused unless this is the commit that is wanted'),
      new Option('--set <pairs...>', 'create, set: what stands in the files for ${vars.NAME}: NAME=VALUE').argParser(
        variable,
      ),
      new Option(
        '--secret <names...>',
        'create, set: as --set, with values that are never shown: they are asked for, or read from standard input, all of it for one name and a line for each of several',
      ),
      new Option('--unset <names...>', 'set: variables and secrets that are removed'),
      new Option('--to <commit>', 'rollback: one of the commits that show lists as applied'),
      yes,
      noWait,
    ],
    run: async (client, [action, name], options, signal) =>
      (await import('./verbs/sync.ts')).sync(client, action, name, options, signal),
  }),
  verb<[], { file: string; name?: string; recogniseDatabases?: boolean }>({
    use: 'convert-compose',
    text: 'print a compose file as a template, and what became of each of its keys on standard error',
    inProject: false,
    options: [
      new Option('-f, --file <path>', 'the compose file, - for standard input').makeOptionMandatory(),
      new Option('--name <name>', 'what the template is called'),
      new Option('--recognise-databases', 'services of images of known engines become databases'),
    ],
    run: async (client, _, options) => (await import('./verbs/template.ts')).convertCompose(client, options),
  }),
  verb<[kind: string, name: string], Waiting & { yes?: boolean; force?: boolean; keepData?: boolean }>({
    use: 'delete <kind> <name>',
    text: 'delete an object with what belongs to it; asks before it does',
    options: [
      yes,
      new Option('--force', 'also what is in use: an environment, a server, an application, a database'),
      new Option('--keep-data', 'of a template instance: its volumes and databases stay'),
      noWait,
    ],
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
    text: 'print whether the machine of a server can be used, by SSH or by its agent; exits with 1 if it cannot',
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

function seconds(text: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 86_400) throw new InvalidArgumentError('It must be a number of seconds from 1 to 86400.');
  return number;
}

function requestNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a number, such as 12.');
  return Number(text);
}

function hours(text: string): number {
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 720) throw new InvalidArgumentError('It must be a number of hours from 1 to 720.');
  return number;
}

function days(text: string): number {
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 365) throw new InvalidArgumentError('It must be a number of days from 1 to 365.');
  return number;
}

/** One of several `NAME=VALUE`, with those before it. */
function variable(text: string, before: Record<string, string> | undefined): Record<string, string> {
  const [name = ''] = text.split('=', 1);
  if (name === '' || name === text) throw new InvalidArgumentError('It must be NAME=VALUE.');
  return { ...before, [name]: text.slice(name.length + 1) };
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

function keptBackups(text: string): number {
  if (!/^[1-9]\d{0,2}$/.test(text)) throw new InvalidArgumentError('It must be 1 to 365, such as 7.');
  return Number(text);
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
