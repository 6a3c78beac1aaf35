import { chooseContext, readCredentials } from '../credentials.ts';
import { table } from '../table.ts';

/** Lists the stored logins; the current one is marked. */
export async function listContexts(): Promise<void> {
  const { current, contexts } = await readCredentials();
  const rows = contexts.map((one) => [
    one.name === current ? '*' : '',
    one.name,
    one.server,
    one.tenant,
    one.email ?? '',
  ]);
  console.log(table(['current', 'name', 'server', 'tenant', 'account'], rows));
}

/** Variables that come before the current login. */
const before = ['SETPOINT_CONTEXT', 'SETPOINT_URL', 'SETPOINT_TENANT', 'SETPOINT_TOKEN'];

/** Makes a stored login the current one. */
export async function useContext(name: string): Promise<void> {
  const { server, tenant } = await chooseContext(name);
  console.log(`Commands go to ${server} (${tenant}) from now on`);
  const set = before.filter((variable) => process.env[variable] !== undefined);
  if (set.length > 0)
    console.error(`Warning: the environment comes first: unset ${set.join(', ')}, or name the login by --context`);
}
