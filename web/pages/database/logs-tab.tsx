import type { VNode } from 'preact';
import { useConsole, useHref } from '../../frame/context.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { LogTrouble } from '../../frame/log-trouble.tsx';
import { useLog } from '../../frame/use-log.ts';
import { LogView } from '../../parts/log-view.tsx';
import type { TabProps } from './tab-props.ts';

const tail = '1000';

/** What the engine of a database writes, as it writes it. */
export function LogsTab({ it, query }: TabProps): VNode {
  const { router } = useConsole();
  const href = useHref();
  const parts = useDatabaseParts();
  const level = query.get('level') ?? '';
  const at = query.get('at');
  const log = useLog({
    path: `/ws/databases/${it.id}/logs`,
    query: { tail, ...(level !== '' && { level: level === 'error' ? 'error' : 'warn,error' }) },
  });
  return (
    <LogView
      label="Output"
      ring={log.ring}
      isEnded={log.isEnded}
      fileName={`${it.name}.log`}
      {...(at !== null && { at: Number(at) })}
      hrefOf={({ seq }) => href(parts(it, 'logs'), { level, at: String(seq) })}
      tools={
        <select
          class="input input-auto"
          aria-label="Level"
          value={level}
          onChange={({ currentTarget }) => router.replace(href(parts(it, 'logs'), { level: currentTarget.value }))}
        >
          <option value="">All levels</option>
          <option value="warn">Warnings and errors</option>
          <option value="error">Errors</option>
        </select>
      }
      notice={<LogTrouble trouble={log.trouble} serverId={it.server_id} />}
      empty={it.status === 'running' ? 'It has written nothing yet.' : 'It does not run, and has written no line.'}
    />
  );
}
