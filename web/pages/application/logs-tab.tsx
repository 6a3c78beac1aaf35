import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import { LogTrouble } from '../../frame/log-trouble.tsx';
import { useLog } from '../../frame/use-log.ts';
import { useRead } from '../../frame/use-read.ts';
import { LogView } from '../../parts/log-view.tsx';
import type { TabProps } from './tab-props.ts';

const tail = '1000';

/** What the instances of an application write, as they write it. */
export function LogsTab({ it, query }: TabProps): VNode {
  const { login, router } = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  const instances =
    useRead(
      () => call(login, 'GET', '/api/v1/applications/{id}/instances', { path: { id: it.id } }),
      [it.id, it.ready_replicas, it.deployment_id],
    ).data ?? [];
  const instance = query.get('instance') ?? '';
  const level = query.get('level') ?? '';
  const at = query.get('at');
  const names = new Map(
    instances.map((one) => [one.id, [one.service, one.replica].filter((part) => part !== null).join('/')]),
  );
  const log = useLog({
    path: `/ws/applications/${it.id}/logs`,
    query: {
      tail,
      ...(instance !== '' && { instance_id: instance }),
      ...(level !== '' && { level: level === 'error' ? 'error' : 'warn,error' }),
    },
    sourceOf: ({ instance_id: id }) => id,
  });
  const change = (next: Record<string, string>): void =>
    router.replace(href(parts(it, 'logs'), { instance, level, ...next }));
  return (
    <LogView
      label="Output"
      ring={log.ring}
      isEnded={log.isEnded}
      fileName={`${it.name}.log`}
      nameOf={(id) => names.get(id) ?? id.slice(0, 8)}
      {...(at !== null && { at: Number(at) })}
      hrefOf={({ seq }) => href(parts(it, 'logs'), { instance, level, at: String(seq) })}
      tools={
        <>
          <select
            class="input input-auto"
            aria-label="Instance"
            value={instance}
            onChange={({ currentTarget }) => change({ instance: currentTarget.value })}
          >
            <option value="">All instances</option>
            {instances.map((one) => (
              <option key={one.id} value={one.id}>
                {names.get(one.id)}
                {one.ready ? '' : ` (${one.status})`}
              </option>
            ))}
            {instance !== '' && !names.has(instance) && (
              <option value={instance}>Instance {instance.slice(0, 8)}</option>
            )}
          </select>
          <select
            class="input input-auto"
            aria-label="Level"
            value={level}
            onChange={({ currentTarget }) => change({ level: currentTarget.value })}
          >
            <option value="">All levels</option>
            <option value="warn">Warnings and errors</option>
            <option value="error">Errors</option>
          </select>
        </>
      }
      notice={<LogTrouble trouble={log.trouble} serverId={it.server_id} />}
      empty={
        it.ready_replicas === 0
          ? 'No instance runs, and none has written a line.'
          : 'Its instances have written nothing yet.'
      }
    />
  );
}
