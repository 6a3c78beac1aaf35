import { InvalidArgumentError, Option } from 'commander';
import type { Client } from './client.ts';

/** What the client is asked for: one entry is one subcommand of `setpoint`. */
export interface Verb {
  /** Its name and arguments, as its help shows them. */
  use: string;
  text: string;
  options: readonly Option[];
  /** Whether `--project` narrows what its names mean. */
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
    // the command line was parsed by `use` and `options`, which is what A and O say
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
const yes = new Option('-y, --yes', 'do not ask');

/** Every verb, in the order of the help. Each loads its code when it is run. */
export const verbs: readonly Verb[] = [
  verb<[kind: string, name?: string], Scope & { watch?: boolean; output?: string }>({
    use: 'get <kind> [name]',
    text: 'list projects, environments, servers, applications or deployments',
    options: [
      new Option('-w, --watch', 'go on and print changes'),
      new Option('-o, --output <form>', 'how it is printed').choices(['table', 'json']).default('table'),
    ],
    run: async (client, [kind, name], options, signal) =>
      (await import('./verbs/get.ts')).get(client, kind, name, options, signal),
  }),
  verb<[kind: string, name: string], Scope & { output?: string }>({
    use: 'describe <kind> <name>',
    text: 'tell everything of an object: conditions, events, what it waits for; a deployment is APP/NUMBER',
    run: async (client, [kind, name], options) =>
      (await import('./verbs/describe.ts')).describe(client, kind, name, options),
  }),
  verb<[kind: string, name: string], Scope & { directPorts?: boolean }>({
    use: 'create <kind> <name>',
    text: 'create a project, an environment or a server; prints how the agent of a server joins',
    options: [new Option('--direct-ports', 'ports of applications are open on the server itself')],
    run: async (client, [kind, name], options) =>
      (await import('./verbs/create.ts')).create(client, kind, name, options),
  }),
  verb<[server: string]>({
    use: 'join <server>',
    text: 'make a new join token for a server, and print how its agent joins',
    inProject: false,
    run: async (client, [name]) => (await import('./verbs/create.ts')).join(client, name),
  }),
  verb<[], Waiting & { file: string; dryRun?: boolean }>({
    use: 'apply',
    text: 'create, change and deploy what a file declares, saying first what that changes',
    inProject: false,
    options: [
      new Option('-f, --file <path>', 'YAML file, - for standard input').makeOptionMandatory(),
      new Option('--dry-run', 'only say what would change'),
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
  verb<[application: string], Scope & { follow?: boolean; tail: string }>({
    use: 'logs <application>',
    text: 'print the output of an application',
    options: [
      new Option('-f, --follow', 'go on'),
      new Option('--tail <n>', 'lines to begin with').default('200').argParser(lineCount),
    ],
    run: async (client, [name], options, signal) =>
      (await import('./verbs/logs.ts')).logs(client, name, options, signal),
  }),
  verb<[kind: string, name: string], Waiting & { yes?: boolean; force?: boolean }>({
    use: 'delete <kind> <name>',
    text: 'delete an object with what belongs to it; asks before it does',
    options: [yes, new Option('--force', 'also an environment or a server that is in use'), noWait],
    run: async (client, [kind, name], options) =>
      (await import('./verbs/delete.ts')).deleteObject(client, kind, name, options),
  }),
  verb<[server: string]>({
    use: 'confirm-removals <server>',
    text: 'let a server remove the instances that a restored store does not know',
    inProject: false,
    run: async (client, [name]) => (await import('./verbs/confirm-removals.ts')).confirmRemovals(client, name),
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

function lineCount(text: string): string {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('It must be a number of lines, such as 200.');
  return text;
}
