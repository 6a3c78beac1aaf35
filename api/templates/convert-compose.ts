import { engines } from '../../databases/engines.ts';
import { Findings } from '../../compose/findings.ts';
import type { Finding } from '../../compose/findings.ts';
import { interpolate } from '../../compose/interpolate.ts';
import { isBlank } from '../../compose/node.ts';
import type { MapNode, Node, Place } from '../../compose/node.ts';
import { parseCompose } from '../../compose/parse.ts';
import { readYaml } from '../../compose/read-yaml.ts';
import type { PlainComposedService } from '../../store/kinds/composed-service.ts';
import { shellWord } from '../../store/shell-word.ts';
import type { ConvertedTemplate } from '../resources/template.ts';
import { convertDatabase, databaseField, recognised } from './convert-database.ts';
import type { Recognised } from './convert-database.ts';
import { printTemplate } from './print.ts';
import type { Printed, PrintedApplication } from './print.ts';
import { readTemplate } from './read.ts';
import { requireHonest, toReport } from './report.ts';
import { keyOf } from './resource-key.ts';
import { isSecretName, Secrets } from './secrets.ts';

type Account = ConvertedTemplate['keys'][number];
type Outcome = Pick<Account, 'outcome' | 'message'>;

/** Keys of a service that an application has no field for, and why they are refused. */
const withoutField: Readonly<Record<string, string>> = {
  entrypoint: 'an application has one command: write what the program is to run into command',
  tmpfs: 'an application of a template mounts volumes only',
  configs: 'an application of a template is given no files: put them into the image, or into a volume',
  secrets: 'an application of a template is given no files: write secrets as variables',
  user: 'instances run as the user of their image',
  working_dir: 'instances run in the folder of their image',
  read_only: 'an application of a template writes to its own container',
  init: 'an application of a template has no process before its own',
  cap_drop: 'instances have the rights that all have',
  cap_add: 'instances have the rights that all have',
  stop_signal: 'instances are ended by the signal of their image',
  env_file: 'the file is not there: write the variables as environment',
  build: 'the repository is not known: name an image',
  profiles: 'a template declares one set of applications',
};
/** Keys that mean something else here, and what. */
const meantElsewise: Readonly<Record<string, string>> = {
  depends_on: 'it is made once what it depends on is up, also where the file asks for less',
  networks: 'all applications of an environment reach each other',
  expose: 'the first port is that of the application',
  stop_grace_period: 'it is stop_grace_seconds',
  mem_limit: 'it is memory_limit',
  cpus: 'it is cpu_limit',
  command: 'it is start_command, which no shell sees',
  image: '',
  restart: 'it is restart_policy',
  deploy: 'replicas and limits are those of the application',
  healthcheck: 'it is the health check of the application',
};
/** Keys of a service that becomes a database, and what they are there. */
const ofDatabases: Readonly<Record<string, string>> = {
  image: 'it is the type and the version of a database, whose image is that of its engine',
  environment: 'user, password and name are those of the database',
  volumes: 'a database has a volume of its own',
  healthcheck: 'a database is asked by its own client',
  restart: 'a database is started again whenever it ends',
  networks: 'all of an environment reach it',
  expose: 'all of its environment reach it at the port of its engine',
  ports: 'all of its environment reach it; exposed_port opens a port of the server',
  container_name: 'it is named by Setpoint',
  hostname: 'it is named by Setpoint',
};
const withParts = new Set([
  'environment',
  'ports',
  'volumes',
  'depends_on',
  'networks',
  'deploy',
  'healthcheck',
  'labels',
]);
/** Most replacements in one value that its account names. */
const mostNamed = 10;
/** Stands around the name of a variable in a text that has it. */
const mark = '\u0001';

/** A compose file as a template, with an account of each key. @throws ApiError BAD_REQUEST for a hostile text */
export function convertCompose({
  content,
  name = 'converted',
  recognise_databases: isRecognising = false,
}: {
  content: string;
  name?: string | undefined;
  recognise_databases?: boolean | undefined;
}): ConvertedTemplate {
  const findings = new Findings();
  const top = readYaml(content, (text) => ({ text, blank: [] }), findings);
  requireHonest(findings);
  const isMap = top?.type === 'map';
  if (!isMap) {
    const keys = findings.errors.map((it) => ({ ...placeOf(it), outcome: 'refused' as const, message: it.message }));
    return answer(name, { metadata: { name }, variables: [], volumes: [], databases: [], applications: [] }, keys);
  }
  return new Conversion(content, top, isRecognising).run(name);
}

function answer(name: string, printed: Printed, keys: Account[]): ConvertedTemplate {
  const text = printTemplate(printed);
  return { name, content: text, keys, report: toReport(readTemplate(text)) };
}

function placeOf({ path, line, column }: Place): Pick<Account, 'path' | 'line' | 'column'> {
  return { path, line, column };
}

/** A service by its name in texts; `target` is what it becomes. */
interface Host {
  name: string;
  target: string;
  pattern: RegExp;
}

/** A name that a pattern can have in it as it is. Others are errors of the file. */
const hostName = /^[a-z0-9_-]+$/;

/** How a variable of the file is written. */
interface Written {
  fallback: string | undefined;
}

/** A variable of a service as it is written. */
interface RawVariable {
  text: string;
  at: Node;
  /** It has no value: that of the one who runs it is passed on. */
  isPassed: boolean;
}

class Conversion {
  readonly #top: MapNode;
  readonly #services: ReadonlyMap<string, Node>;
  readonly #variables: Map<string, Written>;
  readonly #parsed: ReturnType<typeof parseCompose>;
  readonly #secrets: Secrets;
  readonly #isRecognising: boolean;
  readonly #used = new Set<string>();
  /** What became of keys beyond what the reader of compose files says. */
  readonly #notes = new Map<string, Outcome>();
  /** Keys whose value does not matter, so that it cannot be refused. */
  readonly #certain = new Set<string>();
  readonly #mounted = new Map<string, string>();

  constructor(content: string, top: MapNode, isRecognising: boolean) {
    this.#top = top;
    const services = top.fields.get('services');
    this.#services = services?.type === 'map' ? services.fields : new Map();
    this.#variables = variablesOf(top);
    this.#isRecognising = isRecognising;
    this.#secrets = new Secrets(this.#variables.keys());
    this.#parsed = parseCompose({ text: content, variables: new Map(), inRepository: false });
  }

  run(name: string): ConvertedTemplate {
    const { services } = this.#parsed;
    const databases = new Map(
      services.flatMap((it) => {
        const found = this.#isRecognising ? recognised(it) : undefined;
        return found === undefined ? [] : [[it.name, found] as const];
      }),
    );
    const hosts = services
      .filter((it) => hostName.test(it.name))
      .map(({ name: host }) => ({
        name: host,
        target: `${databases.has(host) ? 'databases' : 'applications'}.${keyOf(host)}`,
        pattern: new RegExp(`(^|[/@,= ])${host}(?=$|[:/,? ])`, 'g'),
      }));
    // secrets that have a name of their own are known before texts that hold them
    const raw = new Map(services.map((it) => [it.name, this.#environmentOf(it.name)]));
    for (const [, env] of raw)
      for (const [key, { text }] of env)
        if (isSecretName(key) && isLiteral(text)) this.#secrets.nameOf(plainOf(text), key);
    const env = new Map(services.map((it) => [it.name, this.#envOf(it.name, raw.get(it.name) ?? new Map(), hosts)]));
    const printed: Printed = {
      metadata: { name },
      databases: services.flatMap((it) => {
        const type = databases.get(it.name);
        if (type === undefined) return [];
        const made = convertDatabase(keyOf(it.name), type, env.get(it.name) ?? {});
        this.#noteDatabase(it.name, type, raw.get(it.name) ?? new Map());
        return [made];
      }),
      applications: services.flatMap((it) =>
        databases.has(it.name) ? [] : this.#application(it, env.get(it.name) ?? {}, databases),
      ),
      volumes: [...this.#mounted.keys()].map((volume) => ({ name: keyOf(volume) })),
      variables: [],
    };
    const variables = [
      ...[...this.#variables]
        .filter(([variable]) => this.#used.has(variable))
        .map(([variable, it]) => declared(variable, it)),
      ...this.#secrets.variables().filter((it) => this.#used.has(it.name)),
    ];
    return answer(name, { ...printed, variables }, this.#account());
  }

  #keysOf(service: string): ReadonlyMap<string, Node> {
    const node = this.#services.get(service);
    return node?.type === 'map' ? node.fields : new Map();
  }

  #note(service: string, key: string, outcome: Outcome['outcome'], message: string): void {
    this.#notes.set(`services.${service}.${key}`, { outcome, message });
  }

  /** What becomes of the keys of a service that becomes a database. */
  #noteDatabase(service: string, { type }: Recognised, env: ReadonlyMap<string, RawVariable>): void {
    for (const [key, { path }] of this.#keysOf(service)) {
      const how = ofDatabases[key];
      if (how === undefined) {
        this.#note(service, key, 'refused', `a database of ${engines[type].word} has no such setting`);
        continue;
      }
      this.#note(service, key, 'approximated', how);
      this.#certain.add(path);
    }
    for (const [key, { at }] of env) {
      const field = databaseField(key);
      const outcome: Outcome =
        field === undefined
          ? { outcome: 'refused', message: 'a database is told its user, its password and its name only' }
          : { outcome: 'approximated', message: `it is ${field} of the database` };
      this.#notes.set(at.path, outcome);
    }
  }

  /** The variables of a service as they are written. */
  #environmentOf(service: string): Map<string, RawVariable> {
    const node = this.#keysOf(service).get('environment');
    const found = new Map<string, RawVariable>();
    if (node?.type === 'map')
      for (const [key, at] of node.fields)
        if (at.type === 'scalar') found.set(key, { text: at.text, at, isPassed: isBlank(at) });
    if (node?.type === 'list')
      for (const at of node.items) {
        if (at.type !== 'scalar') continue;
        const split = at.text.indexOf('=');
        const key = split === -1 ? at.text : at.text.slice(0, split);
        found.set(key, { text: split === -1 ? '' : at.text.slice(split + 1), at, isPassed: split === -1 });
      }
    return found;
  }

  /** The variables of an application, with expressions in the place of variables, secrets and names of services. */
  #envOf(service: string, raw: ReadonlyMap<string, RawVariable>, hosts: readonly Host[]): Record<string, string> {
    const env: Record<string, string> = {};
    for (const [key, { text, at, isPassed }] of raw) {
      if (isPassed) {
        this.#used.add(key);
        this.#own(key);
        env[key] = `\${${key}}`;
        this.#notes.set(at.path, { outcome: 'approximated', message: `it is the variable ${key} of the template` });
        continue;
      }
      if (isSecretName(key) && isLiteral(text)) {
        const name = this.#secrets.nameOf(plainOf(text), key);
        this.#used.add(name);
        env[key] = `\${${name}}`;
        this.#notes.set(at.path, {
          outcome: 'approximated',
          message: `the secret is the variable ${name}, which is generated`,
        });
        continue;
      }
      const marked = interpolate(text, new Map([...this.#variables.keys()].map((one) => [one, mark + one + mark])));
      if ('fault' in marked) {
        this.#notes.set(at.path, { outcome: 'refused', message: marked.fault });
        continue;
      }
      env[key] = this.#expression(marked.text, { key, at, hosts, service });
    }
    return env;
  }

  /** A variable that no text of the file uses. */
  #own(name: string): void {
    if (!this.#variables.has(name)) this.#variables.set(name, { fallback: undefined });
  }

  #expression(
    text: string,
    { key, at, hosts, service }: { key: string; at: Node; hosts: readonly Host[]; service: string },
  ): string {
    const replaced = new Set<string>();
    const written = text
      .split(mark)
      .map((part, index) => {
        if (index % 2 === 1) {
          this.#used.add(part);
          return `\${${part}}`;
        }
        const { text: hidden, names } = this.#secrets.hide(part, key);
        for (const name of names) {
          this.#used.add(name);
          replaced.add(`a secret is \${${name}}`);
        }
        let rest = hidden;
        for (const { name, target, pattern } of hosts) {
          if (name === service || !rest.includes(name)) continue;
          const next = rest.replaceAll(pattern, `$1\${${target}.host}`);
          if (next !== rest) replaced.add(`${name} is \${${target}.host}`);
          rest = next;
        }
        return rest;
      })
      .join('');
    if (replaced.size > 0)
      this.#notes.set(at.path, { outcome: 'approximated', message: [...replaced].slice(0, mostNamed).join(', ') });
    return written;
  }

  #application(
    it: PlainComposedService,
    env: Record<string, string>,
    databases: ReadonlyMap<string, unknown>,
  ): PrintedApplication[] {
    const keys = this.#keysOf(it.name);
    for (const [key, why] of Object.entries(withoutField)) if (keys.has(key)) this.#note(it.name, key, 'refused', why);
    for (const [key, how] of Object.entries(meantElsewise))
      if (keys.has(key) && how !== '') this.#note(it.name, key, 'approximated', how);
    if (it.image === undefined) {
      for (const key of keys.keys())
        if (!this.#notes.has(`services.${it.name}.${key}`))
          this.#note(
            it.name,
            key,
            'refused',
            'the service has no image that is known, so that no application is made of it',
          );
      return [];
    }
    const [port, ...others] = it.ports.map((one) => one.port);
    if (others.length > 0)
      this.#note(
        it.name,
        'ports',
        'approximated',
        `port ${String(port)} is that of the application; ${others.join(', ')} are reached within its environment only`,
      );
    else if (keys.has('ports'))
      this.#note(it.name, 'ports', 'approximated', 'it is exposed_port; a domain leads to it');
    const limits = limitsOf(it);
    const after = it.depends_on.map(({ service }) => service).filter((name) => !databases.has(name));
    return [
      {
        name: keyOf(it.name),
        app_type: port === undefined ? 'worker' : 'web',
        image_url: it.image,
        ...(port !== undefined && { exposed_port: port }),
        ...(it.command !== undefined && { start_command: this.#hidden(it, it.command.map(shellWord).join(' ')) }),
        ...(it.replicas !== 1 && { replicas: it.replicas }),
        ...(it.restart_policy !== 'always' && { restart_policy: it.restart_policy }),
        ...(it.grace_seconds !== 10 && { stop_grace_seconds: it.grace_seconds }),
        ...healthOf(it, (text) => this.#hidden(it, text)),
        ...limits,
        ...(Object.keys(env).length > 0 && { env }),
        ...this.#volumesOf(it),
        ...(after.length > 0 && { depends_on: after.map(keyOf) }),
      },
    ];
  }

  /** A text beside the variables, which a program may be given a secret by. */
  #hidden({ name }: PlainComposedService, value: string): string {
    const { text, names } = this.#secrets.hide(value, `${keyOf(name)}_SECRET`);
    for (const one of names) this.#used.add(one);
    return text;
  }

  #volumesOf(it: PlainComposedService): { volumes?: object[] } {
    const volumes = it.mounts.flatMap((mount) => {
      if (mount.type !== 'volume') return [];
      const holder = this.#mounted.get(mount.volume);
      if (holder !== undefined) {
        this.#note(
          it.name,
          'volumes',
          'refused',
          `${mount.volume} is mounted by ${holder}, and one application mounts a volume`,
        );
        return [];
      }
      this.#mounted.set(mount.volume, it.name);
      return [{ volume: keyOf(mount.volume), path: mount.path, ...(mount.read_only && { read_only: true }) }];
    });
    return volumes.length > 0 ? { volumes } : {};
  }

  /** What became of each key, in the order of the file. */
  #account(): Account[] {
    const keys: Account[] = [];
    const add = (at: Node, around: string): void => {
      keys.push({ ...placeOf(at), ...this.#outcomeOf(at, around) });
    };
    for (const [key, node] of this.#top.fields) {
      if (key !== 'services') add(node, '');
      else if (node.type !== 'map') add(node, '');
    }
    for (const [, service] of this.#services) {
      if (service.type !== 'map') {
        add(service, '');
        continue;
      }
      for (const [key, node] of service.fields) {
        add(node, '');
        if (!withParts.has(key)) continue;
        const parts = node.type === 'map' ? [...node.fields.values()] : node.type === 'list' ? node.items : [];
        for (const part of parts) add(part, node.path);
      }
    }
    return keys;
  }

  #outcomeOf({ path, key }: Node, around: string): Outcome {
    const below = (it: Finding): boolean =>
      it.path === path || it.path.startsWith(`${path}.`) || it.path.startsWith(`${path}[`);
    const own = this.#notes.get(path);
    const error = this.#parsed.errors.find(
      (it) => below(it) && !(path.includes('.environment') && ofVariables.test(it.message)),
    );
    const isCertain = this.#certain.has(path) || this.#certain.has(around) || path.includes('.environment');
    if (error !== undefined && !(isCertain && (own ?? this.#notes.get(around))?.outcome === 'approximated'))
      return { outcome: 'refused', message: error.message };
    const warning = this.#parsed.warnings.find(
      (it) => below(it) && !(path.includes('.environment') && ofVariables.test(it.message)),
    );
    if (own?.outcome === 'approximated' && !isCertain && warning !== undefined)
      return { outcome: 'approximated', message: `${own.message}; ${warning.message}` };
    if (own !== undefined) return own;
    const of = around === '' ? undefined : this.#notes.get(around);
    if (of !== undefined && (of.outcome === 'refused' || this.#certain.has(around))) return of;
    if (warning !== undefined) return { outcome: 'approximated', message: warning.message };
    return {
      outcome: 'kept',
      message: key.startsWith('x-') ? 'it has no effect, as compose has it' : 'it means the same',
    };
  }
}

/** What the reader of compose files finds of variables that only a template has. */
const ofVariables = /needs the variable|uses [A-Za-z_]\w*, which|passes [A-Za-z_]\w* on/;

/** The variables that texts of the file use, each with the first fallback that is written. */
function variablesOf(top: MapNode): Map<string, Written> {
  const found = new Map<string, Written>();
  const visit = (node: Node): void => {
    if (node.type === 'list') for (const item of node.items) visit(item);
    else if (node.type === 'map') for (const value of node.fields.values()) visit(value);
    else
      for (const { name, fallback } of variablesIn(node.text))
        if (!found.has(name) || (fallback !== undefined && found.get(name)?.fallback === undefined))
          found.set(name, { fallback });
  };
  visit(top);
  return found;
}

function declared(name: string, { fallback }: Written): Printed['variables'][number] {
  const isSecret = isSecretName(name);
  const type = isSecret ? (/pass/i.test(name) ? ('password' as const) : ('secret' as const)) : ('string' as const);
  if (isSecret) return { name, type, generate: true };
  return fallback === undefined ? { name, type } : { name, type, default: fallback };
}

/** Whether a text has no variable in it. */
function isLiteral(text: string): boolean {
  return text !== '' && variablesIn(text).next().done === true;
}

/** Where a variable begins. It is never tried at a character twice, as the texts are of strangers. */
const opening = /\$(?:\$|\{([A-Za-z_]\w*)|([A-Za-z_]\w*))/g;

/** The variables that a text uses, each with its fallback if that is plain text. */
function* variablesIn(text: string): Generator<Written & { name: string }> {
  let end = 0;
  for (const { index, 0: found, 1: braced, 2: bare } of text.matchAll(opening)) {
    if (index < end) continue; // it is within the braces of another one
    end = index + found.length;
    if (bare !== undefined) yield { name: bare, fallback: undefined };
    if (braced === undefined) continue;
    const close = text.indexOf('}', end);
    if (close === -1) return;
    const [operator = ''] = /^:?[-?+]/.exec(text.slice(end, end + 2)) ?? [];
    const rest = text.slice(end + operator.length, close);
    yield { name: braced, fallback: operator.endsWith('-') && !rest.includes('$') ? rest : undefined };
    end = close + 1;
  }
}

/** The value that a literal text stands for. */
function plainOf(text: string): string {
  return text.replaceAll('$$', '$');
}

function healthOf({ healthcheck }: PlainComposedService, written: (text: string) => string): object {
  if (healthcheck === undefined) return {};
  const { command, none, interval_seconds, timeout_seconds, failures, start_seconds } = healthcheck;
  if (none === true) return { healthcheck: { type: 'none' } };
  const times = { interval_seconds, timeout_seconds: Math.min(timeout_seconds, 300), failures, start_seconds };
  if (command === undefined) return { healthcheck: { type: 'image' } };
  return { healthcheck: { type: 'command', command: command.map(written), ...times } };
}

function limitsOf({ limits }: PlainComposedService): object {
  const { memory_bytes: memory, nano_cpus: cpus, processes, shm_bytes: shm, ulimits = {} } = limits;
  return {
    ...(memory !== undefined && { memory_limit: `${memory}b` }),
    ...(cpus !== undefined && { cpu_limit: String(cpus / 1e9) }),
    ...(processes !== undefined && { pids_limit: processes }),
    ...(shm !== undefined && { shm_size: `${shm}b` }),
    ...(Object.keys(ulimits).length > 0 && { ulimits }),
  };
}
