import { z } from 'zod';
import { changeAsRead } from '../change-as-read.ts';
import type { ApiObject, Client } from '../client.ts';
import { findObject, listObjects, pathOf } from '../objects.ts';
import { table } from '../table.ts';

const Ports = z.object({
  direct_ports_enabled: z.boolean(),
  direct_ports: z.object({
    from: z.number(),
    to: z.number(),
    reserved: z.array(z.number()),
    bindings: z.array(z.object({ port: z.number(), project_id: z.string() })),
  }),
});

interface Options {
  open?: boolean;
  close?: boolean;
  range?: { from: number; to: number };
  reserve?: number[];
  release?: number[];
  bind?: { port: number; project: string }[];
}

const changing = ['open', 'close', 'range', 'reserve', 'release', 'bind'] as const satisfies (keyof Options)[];

/** Changes the ports of a server that its applications may take, if an option asks for it, and prints them. */
export async function ports(client: Client, name: string, options: Options): Promise<void> {
  const server = await findObject(client, 'servers', name);
  portsOf(server);
  if (!changing.some((option) => options[option] !== undefined)) {
    await show(client, server);
    return;
  }
  const { range, reserve = [], release = [], bind = [] } = options;
  const bound = await Promise.all(
    bind.map(async ({ port, project }) => ({
      port,
      project_id: (await findObject(client, 'projects', project)).id,
    })),
  );
  const named = new Set([...release, ...reserve, ...bound.map(({ port }) => port)]);
  const listsOf = (read: ApiObject): object => {
    const { reserved, bindings } = portsOf(read).direct_ports;
    return {
      reserved: [...reserved.filter((port) => !named.has(port)), ...reserve],
      bindings: [...bindings.filter(({ port }) => !named.has(port)), ...bound],
    };
  };
  const bodyOf = (read: ApiObject): object => ({
    ...(options.open === true && { direct_ports_enabled: true }),
    ...(options.close === true && { direct_ports_enabled: false }),
    direct_ports: {
      ...range,
      ...(named.size > 0 && listsOf(read)),
    },
  });
  await show(client, await changeAsRead(client, { path: pathOf('servers', server) }, server, bodyOf));
}

/** @throws Error if the server is shown without its ports, as to those who are no admins */
function portsOf(server: unknown): z.infer<typeof Ports> {
  const { data } = Ports.safeParse(server);
  if (data === undefined)
    throw new Error('The ports of a server are shown to admins of the tenant only, and changed by them');
  return data;
}

async function show(client: Client, server: unknown): Promise<void> {
  const { direct_ports_enabled: open, direct_ports: allowed } = portsOf(server);
  const projects = new Map((await listObjects(client, 'projects')).map((it) => [it.id, it.name ?? it.id]));
  const rows = [
    [`${allowed.from}-${allowed.to}`, 'for any application'],
    ...allowed.reserved.map((port) => [String(port), 'reserved']),
    ...allowed.bindings.map((one) => [
      String(one.port),
      `for project ${projects.get(one.project_id) ?? one.project_id}`,
    ]),
  ];
  console.log(open ? 'Ports of applications are open on the server' : 'Ports of applications are closed on the server');
  console.log(table(['port', 'use'], rows));
}
