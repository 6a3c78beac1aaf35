import { unlessForbidden } from '../client.ts';
import type { ApiObject, Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { age, table } from '../table.ts';

/** Lists the members of a project, invites an address, or changes or removes a role. */
export async function members(
  client: Client,
  action: string,
  projectName: string,
  [email, role]: readonly string[],
): Promise<void> {
  const project = await findObject(client, 'projects', projectName);
  const path = `/api/v1/projects/${project.id}`;
  if (action === 'list') {
    const invites = await unlessForbidden(client.list(`${path}/invites`));
    print(await client.list(`${path}/members`), invites ?? []);
    return;
  }
  if (email === undefined) throw new Error(`The address is missing: members ${action} PROJECT ADDRESS`);
  switch (action) {
    case 'invite':
      await client.request('POST', `${path}/invites`, { email, ...(role !== undefined && { role }) });
      console.log(`${email} is invited to ${projectName}, by mail`);
      return;
    case 'role':
      if (role === undefined)
        throw new Error('The role is missing: members role PROJECT ADDRESS, then admin, member or viewer');
      await client.request('PUT', `${path}/members/${await memberOf(client, path, email)}`, { role });
      console.log(`${email} is ${role} of ${projectName} now`);
      return;
    case 'remove':
      await client.request('DELETE', `${path}/members/${await memberOf(client, path, email)}`);
      console.log(`${email} is no longer in ${projectName}`);
      return;
    default:
      throw new Error(`Cannot ${action} members: list, invite, role or remove`);
  }
}

async function memberOf(client: Client, path: string, email: string): Promise<string> {
  const all = await client.list(`${path}/members`);
  const found = all.find((one) => String(one['email']).toLowerCase() === email.toLowerCase());
  if (found !== undefined) return found.id;
  throw new Error(`${email} is not in the project: ${all.map((one) => String(one['email'])).join(', ')} are`);
}

function print(there: readonly ApiObject[], invited: readonly ApiObject[]): void {
  const now = new Date();
  const row = (it: ApiObject): string[] => [
    String(it['email']),
    String(it['role']),
    it.status ?? '',
    age(it.created_at, now),
  ];
  console.log(table(['account', 'role', 'status', 'age'], [...there, ...invited].map(row)));
}
