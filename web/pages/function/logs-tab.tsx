import type { VNode } from 'preact';
import { useConsole, useHref } from '../../frame/context.ts';
import { useFunctionParts } from '../../frame/object-links.ts';
import { useLog } from '../../frame/use-log.ts';
import { LogView } from '../../parts/log-view.tsx';
import { Notice } from '../../parts/notice.tsx';
import type { TabProps } from './tab-props.ts';

const tail = '500';

/** What the instances of a function write, as they write it. */
export function LogsTab({ it, query }: TabProps): VNode {
  const { router } = useConsole();
  const href = useHref();
  const parts = useFunctionParts();
  const level = query.get('level') ?? '';
  const log = useLog({
    path: '/ws/logs',
    query: {
      ids: it.id,
      kinds: 'function',
      tail,
      ...(level !== '' && { level: level === 'error' ? 'error' : 'warn,error' }),
    },
    sourceOf: ({ instance_id: instance }) => instance.slice(0, 4),
  });
  return (
    <LogView
      label="Output"
      ring={log.ring}
      isEnded={log.isEnded}
      fileName={`${it.name}.log`}
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
      notice={
        log.trouble !== undefined && (
          <Notice shape="warn">
            <p>No lines come now: {log.trouble}</p>
          </Notice>
        )
      }
      empty={
        it.status === 'running'
          ? 'It has written nothing yet: its instances write once something calls it.'
          : 'It does not run, and has written no line.'
      }
    />
  );
}
