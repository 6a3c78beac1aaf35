import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { pino } from 'pino';
import { z } from 'zod';
import { systemClock } from '../time/clock.ts';
import { isLoopbackHost } from '../agent-protocol/control-plane-url.ts';
import { findLeftovers, removeLeftover } from '../agent/leftovers.ts';
import type { Found, Leftover } from '../agent/leftovers.ts';
import { run } from '../agent/machine/process.ts';
import { shortOwner } from '../agent/ports/rules.ts';
import { parseApplications } from '../manifests/application.ts';
import { baseImageTag, ensureBaseImage } from '../manifests/base-image.ts';
import { ensureExampleRepository } from '../manifests/example-repository.ts';
import { defined } from '../store/defined.ts';
import { agentLogs, startLocalAgent } from './agent.ts';
import { leftoverTable } from './agent-clean.ts';
import { AgentConfig } from './agent-config.ts';
import type { ApiObject, Client, Connection } from './client.ts';
import { createClient, Refused } from './client.ts';
import { startControlPlane } from './control-plane.ts';
import { contextName, loadConnection, saveContext } from './credentials.ts';
import { ensureDataDir } from './data-dir.ts';
import { deletedServers, ensureServer } from './dev-server.ts';
import { localRuntime } from './docker-engine.ts';
import { listObjects } from './objects.ts';
import { createLog } from './log.ts';
import { parseConfig } from './parse-config.ts';
import { ServerConfig } from './server-config.ts';
import { openEnd, waiting } from './settled.ts';
import { stopped } from './stop-signal.ts';
import { applyApplication } from './verbs/apply.ts';

const DevConfig = z.object({
  listen: z.string().default('127.0.0.1:7070'),
  publicUrl: z.string().optional(),
  allowPlainHttp: z.union([z.boolean(), z.stringbool()]).optional(),
  data: z.string().default('data'),
  logLevel: z.string().default('warn'),
  takeOverPorts: z.union([z.boolean(), z.stringbool()]).default(false),
  examplePort: z.coerce.number().int().min(1).max(65_535).optional(),
  ingressImage: z.string().optional(),
  localImages: z.string().default(''),
});

const Account = z.object({ email: z.string(), password: z.string() });
const Login = z.object({ token: z.string() });
const manifest = new URL('../manifests/examples/hello/application.yaml', import.meta.url);
const names = { project: 'demo', environment: 'production', server: 'local', application: 'hello' } as const;

/**
 * Runs all of Setpoint on this machine until it is stopped: control plane, embedded store, agent on the local engine,
 * and the example application, deployed from a git repository in the data directory. All state is in that directory, so
 * that a second run continues from it.
 */
export async function runDev(options: unknown, signal: AbortSignal): Promise<void> {
  const dev = parseConfig(DevConfig, options);
  const data = resolve(dev.data);
  await ensureDataDir(data);
  const destination = pino.destination({ dest: join(data, 'dev.log'), sync: true });
  const log = createLog({ level: dev.logLevel }, destination);
  const setupToken = randomBytes(24).toString('base64url');
  const config = parseConfig(ServerConfig, {
    listen: dev.listen,
    ...defined({ publicUrl: dev.publicUrl, allowPlainHttp: dev.allowPlainHttp, ingressImage: dev.ingressImage }),
    // only who has this token can be the first user, also where others on the network reach it
    setupToken,
    data: join(data, 'server'),
    logLevel: dev.logLevel,
    // only addresses and localhost are answered: a foreign page cannot reach it under a name that points to this
    // machine
    ...(/^(127\.|localhost:|\[::1\])/.test(dev.listen) && { allowedHosts: 'localhost' }),
  });

  await using plane = await startControlPlane(config, log);
  const here = reachable(plane.url);
  print(`Control plane: ${here}/default   (store: ${config.store})`);
  print(`Console: ${here}/console`);
  if (dev.publicUrl !== undefined) print(`Other machines are to reach it at ${config.publicUrl}${onlyHere(config)}`);
  const client = await logIn(here, { data, setupToken, signal });
  const agentData = join(data, 'agent');
  const { server, joinToken } = await ensureServer(client, { name: names.server, agentData, print });

  const agentConfig = parseConfig(AgentConfig, {
    server: `${here}/default`,
    allowPlainHttp: true, // it connects within this machine
    data: agentData,
    gitProtocols: 'file,http',
    gitFileRoots: join(data, 'examples'),
    gitLoopback: true,
    takeOverPorts: dev.takeOverPorts,
    localImages: `${baseImageTag},${dev.localImages}`,
    ...(joinToken === undefined ? {} : { token: joinToken }),
  });
  await using agent = await startLocalAgent(agentConfig, agentLogs(dev.logLevel, destination));
  print(`Agent: server "${server.name ?? server.id}" (${agent.serverId}) on the Docker engine of this machine`);

  const deleted = await deletedServers(client, agentData).catch(() => []); // then what they left is shown only
  await clearLeftovers(deleted, agentConfig.dockerSocket, signal);

  await ensureProject(client);
  await deployExample(client, { data, server, port: dev.examplePort }, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    print(`\nThe example is not deployed: ${error instanceof Error ? error.message : String(error)}`);
    print(
      'Setpoint runs all the same: `setpoint describe application hello` shows why, `setpoint deploy hello` tries again',
    );
  });
  print('\nStop with Ctrl-C: the application goes on. `make dev` again finds everything as it was left.');
  await stopped(signal);
}

/** The address on this machine of a control plane that listens there, also where it listens on every address. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

/** What is missing for other machines, in words that follow the public URL. */
function onlyHere({ listen }: ServerConfig): string {
  if (!isLoopbackHost(listen.host)) return '';
  return `, by a program that passes it on: it listens on this machine alone (--listen ${listen.host}:${listen.port})`;
}

function print(text: string): void {
  console.log(text);
}

/**
 * Removes what agents here left of deleted servers, whose networks would be in the way of the example, and shows what
 * other earlier runs left. Does nothing else if that fails: the product runs all the same.
 */
async function clearLeftovers(deleted: readonly string[], dockerSocket: string, signal: AbortSignal): Promise<void> {
  using engine = localRuntime(dockerSocket);
  const deps = { engine, clock: systemClock };
  const limit = AbortSignal.any([signal, AbortSignal.timeout(30_000)]);
  const found = await findLeftovers(deps, limit).catch(() => undefined);
  if (found === undefined) return;
  const owners = new Set(deleted.map(shortOwner));
  const isOfDeleted = ({ server }: Leftover): boolean => owners.has(shortOwner(server));
  await removeAll(deps, found.leftovers.filter(isOfDeleted), signal).catch((error: unknown) => {
    signal.throwIfAborted();
    print(`What is left of deleted servers stays: ${error instanceof Error ? error.message : String(error)}`);
  });
  printLeftovers({ ...found, leftovers: found.leftovers.filter((it) => !isOfDeleted(it)) });
}

async function removeAll(
  deps: Parameters<typeof removeLeftover>[0],
  leftovers: readonly Leftover[],
  signal: AbortSignal,
): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(600_000)]);
  for (const one of leftovers) {
    await removeLeftover(deps, one, limit);
    print(`What was left of server ${one.server} on this machine is removed; named volumes stay`);
  }
}

/** Shows what earlier runs with other data directories left: it may be in the way of the example. */
function printLeftovers({ leftovers, doubtful }: Found): void {
  if (leftovers.length === 0) return;
  print(`\nLeft here by agents that do not run on this machine, such as one whose data directory was removed:`);
  print(leftoverTable(leftovers));
  if (doubtful) print('Agents of an earlier release run on this machine too: some of it may be theirs');
  print(
    '`setpoint agent clean` removes it. Until then no other agent can use its ports, except with --take-over-ports\n',
  );
}

/**
 * Logs in as the first user, who is registered once; the password is in the data directory, readable by its owner only.
 */
async function logIn(
  url: string,
  { data, setupToken, signal }: { data: string; setupToken: string; signal: AbortSignal },
): Promise<Client> {
  const path = join(data, 'account.json');
  const visitor = createClient({ server: url, tenant: 'default' });
  const kept = await readFile(path, 'utf8').catch(() => undefined);
  let account = kept === undefined ? undefined : Account.parse(JSON.parse(kept));
  if (account === undefined) {
    account = { email: 'admin@localhost.localdomain', password: randomBytes(12).toString('base64url') };
    await writeFile(path, JSON.stringify(account), { mode: 0o600 });
  }
  const { setup_complete: done } = z
    .object({ setup_complete: z.boolean() })
    .parse(await visitor.request('GET', '/api/v1/auth/setup-status'));
  if (!done) {
    const name = { first_name: 'Local', last_name: 'Admin' };
    await visitor.request('POST', '/api/v1/auth/register', { ...account, ...name, setup_token: setupToken });
    print(`First user: ${account.email}, password ${account.password}   (kept in ${path})`);
  } else print(`Log in to the console as ${account.email}; the password is in ${path}`);
  const answer = await visitor.request('POST', '/api/v1/auth/login', account).catch((error: unknown) => {
    if (!(error instanceof Refused) || error.status >= 500) throw error;
    throw new Error(
      `Cannot log in as ${account.email}: ${error.message}. If its password was changed, write the present one into ` +
        `${path}, and start again`,
      { cause: error },
    );
  });
  const { token } = Login.parse(answer);
  const connection = { server: url, tenant: 'default', token };
  await keepForVerbs(connection, account.email);
  return createClient(connection, signal);
}

/** Stores the session for the verbs, unless they are logged in to another installation: then that login stays. */
async function keepForVerbs(connection: Connection, email: string): Promise<void> {
  const kept = await loadConnection({}).catch(() => undefined);
  if (kept === undefined || kept.server === connection.server)
    await saveContext({ ...connection, name: contextName(connection), email });
  else
    print(
      `The setpoint command stays logged in to ${kept.server}. For this one: setpoint login --server ${connection.server} --email ${email}`,
    );
}

async function ensureProject(client: Client): Promise<void> {
  const all = await client.list('/api/v1/projects');
  if (!all.some((it) => it.name === names.project))
    await client.object('POST', '/api/v1/projects', { name: names.project });
}

async function deployExample(
  client: Client,
  { data, server, port }: { data: string; server: ApiObject; port: number | undefined },
  signal: AbortSignal,
): Promise<void> {
  const repository = join(data, 'examples', 'hello');
  {
    using runtime = localRuntime('/var/run/docker.sock');
    print(
      `Base image: ${baseImageTag}, from this machine's own files since no container registry is asked; every project may use it`,
    );
    await ensureBaseImage(runtime, AbortSignal.any([signal, AbortSignal.timeout(300_000)]));
  }
  await ensureExampleRepository(repository, (program, args, { cwd, env }) =>
    runToSuccess(program, { args, cwd, env }, signal),
  );
  print(`Example: ${repository}, a git repository to change and deploy from`);
  await removeStranded(client, signal);
  for (const declared of parseApplications(await readFile(manifest, 'utf8'))) {
    declared.spec.server = server.name ?? names.server;
    declared.spec.repository_url = pathToFileURL(repository).href;
    if (port !== undefined) {
      declared.spec.exposed_port = port;
      declared.spec.env = { ...declared.spec.env, PORT: String(port) };
    }
    await applyApplication(client, declared, {}, signal);
  }
  const app = await findExample(client);
  const address = `http://127.0.0.1:${String(app['exposed_port'])}/`;
  // changes nothing, and is answered when the application has settled
  const current = await client.object('PUT', `/api/v1/applications/${app.id}?wait=60`, {});
  print(`\nApplication "${names.application}" is ${current.status ?? 'unknown'} on server "${String(server.name)}"`);
  const answer = await fetch(address, { signal: AbortSignal.timeout(5_000) }).then(
    (response) => response.text(),
    (error: unknown) => `no answer: ${error instanceof Error ? error.message : String(error)}`,
  );
  print(`$ curl ${address}\n${answer}`);
}

/** An application stays on its server: the example of one that was deleted is deleted too, and made anew. */
async function removeStranded(client: Client, signal: AbortSignal): Promise<void> {
  const example = await exampleOf(client);
  if (example === undefined) return;
  const servers = await client.list('/api/v1/servers');
  if (servers.some(({ id }) => id === example['server_id'])) return;
  print(`The server of application "${names.application}" was deleted: the application is made anew`);
  await client.request('DELETE', `/api/v1/applications/${example.id}?${waiting}`);
  signal.throwIfAborted();
  const left = await exampleOf(client);
  if (left !== undefined) throw new Error(`It is still being deleted: ${openEnd(left) ?? 'start again'}`);
}

async function findExample(client: Client): Promise<ApiObject> {
  const found = await exampleOf(client);
  if (found === undefined) throw new Error(`No application is called ${names.application} in ${names.environment}`);
  return found;
}

/** The example in the environment of the manifest: a clone of that environment has an application of the same name. */
async function exampleOf(client: Client): Promise<ApiObject | undefined> {
  const environments = await listObjects(client, 'environments', names.project);
  const environment = environments.find(({ name }) => name === names.environment);
  const all = await listObjects(client, 'applications', names.project);
  return all.find((it) => it.name === names.application && it['environment_id'] === environment?.id);
}

async function runToSuccess(
  program: string,
  options: { args: readonly string[]; cwd: string; env: Record<string, string> },
  signal: AbortSignal,
): Promise<void> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(30_000)]);
  const { code, stderr } = await run(program, { ...options, maxOutputBytes: 1024 * 1024 }, limited);
  if (code !== 0) throw new Error(`${program} ${options.args.join(' ')} failed: ${stderr.trim()}`);
}
