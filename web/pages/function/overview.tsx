import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useFunctionParts } from '../../frame/object-links.ts';
import { useRead } from '../../frame/use-read.ts';
import { waitsFor } from '../../frame/waits-for.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { Copy } from '../../parts/copy.tsx';
import { cronWords } from '../../parts/cron-times.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Time } from '../../parts/time.tsx';
import { Happenings } from './happenings.tsx';
import { runtimes } from './runtimes.ts';
import type { Fn, TabProps } from './tab-props.ts';
import { VersionsCard } from './versions-card.tsx';

/** What a function is now: the cause first where it does not work, then where it is called and what was built. */
export function Overview({ it }: TabProps): VNode {
  const href = useHref();
  const parts = useFunctionParts();
  const isNew = it.version_id === null && it.active_version_id === null;
  const cause = isNew ? '' : waitsFor(it);
  const ready = it.conditions.find(({ type }) => type === 'Ready');
  const isBad = it.status === 'error' || it.status === 'failed' || ready?.reason === 'VersionFailed';
  return (
    <>
      {cause !== '' && (
        <Notice
          shape={isBad ? 'bad' : 'busy'}
          actions={<LinkButton href={href(parts(it, isBad ? 'code' : 'logs'))}>{isBad ? 'Code' : 'Log'}</LinkButton>}
        >
          <p>{cause}</p>
        </Notice>
      )}
      {isNew && (
        <EmptyState
          title="It was never deployed"
          action={<LinkButton href={href(parts(it, 'code'))}>Look at its code</LinkButton>}
          command={`setpoint fn deploy ${shellQuoted(it.name)}`}
        >
          A deployment builds a version of its code on its server. Once that is built it answers; while nobody calls it,
          nothing of it runs.
        </EmptyState>
      )}
      <div class="columns">
        <div class="stack">
          <Card title="Where it is called" actions={<LinkButton href={href(parts(it, 'try'))}>Try it</LinkButton>}>
            <Called it={it} />
          </Card>
          <Card title="Conditions">
            <Conditions of={it.conditions} />
          </Card>
        </div>
        <Card title="At a glance">
          <AtAGlance it={it} />
        </Card>
      </div>
      {!isNew && <VersionsCard it={it} />}
      <Card title="What happened">
        <Happenings it={it} />
      </Card>
    </>
  );
}

function Called({ it }: { readonly it: Fn }): VNode {
  const href = useHref();
  const parts = useFunctionParts();
  if (it.trigger_type === 'cron' && it.schedule !== null)
    return (
      <Facts
        of={[
          [
            'Schedule',
            <>
              {cronWords(it.schedule) ?? ''} <code>{it.schedule}</code>
            </>,
          ],
          ['Time zone', it.schedule_config?.timezone],
          [
            'Next',
            it.next_run_at === null ? 'none: its schedule rests while it does not run' : <Time at={it.next_run_at} />,
          ],
          ['Last', it.last_run_at === null ? 'none yet' : <Time at={it.last_run_at} />],
        ]}
      />
    );
  if (it.url !== null)
    return (
      <div class="input-row">
        <a class="strong" href={it.url} target="_blank" rel="noreferrer">
          {it.url}
        </a>
        <Copy text={it.url} label="Copy the address" />
      </div>
    );
  return (
    <Notice shape="info" actions={<LinkButton href={href(parts(it, 'settings'))}>Settings</LinkButton>}>
      <p>
        {it.exposed_port === null
          ? 'It has no port: requests reach it by “Try it” and by the API alone.'
          : `Its server does not open port ${it.exposed_port}, or its address is not known: see the settings of the server.`}
      </p>
    </Notice>
  );
}

function AtAGlance({ it }: { readonly it: Fn }): VNode {
  const { store, login } = useConsole();
  const href = useHref();
  const server = store.get('server', it.server_id);
  const used = useRead(
    () => call(login, 'GET', '/api/v1/functions/{id}/dependencies', { path: { id: it.id } }),
    [it.id, it.resource_version],
  ).data;
  const refersTo = [
    ...(used?.applications ?? []).map((one) => ({ ...one, to: href(['applications', one.id]) })),
    ...(used?.databases ?? []).map((one) => ({ ...one, to: href(['databases', one.id]) })),
  ];
  return (
    <Facts
      of={[
        ['Runtime', runtimes[it.runtime].label],
        ['Server', server === undefined ? undefined : <a href={href(['servers', server.id])}>{server.name}</a>],
        ['Instances', `${it.min_instances} to ${it.max_instances}`],
        ['Calls at a time', it.concurrency === null ? 'the usual number' : `${it.concurrency} of an instance`],
        ['Answers within', `${it.timeout_seconds} s`],
        [
          'Limits',
          [it.memory_limit, it.cpu_limit === null ? null : `${it.cpu_limit} CPU`].filter(Boolean).join(', ') ||
            'the usual ones',
        ],
        [
          'Refers to',
          refersTo.length === 0
            ? undefined
            : refersTo.map(({ id, name, to }, at) => (
                <span key={id}>
                  {at > 0 && ', '}
                  <a href={to}>{name}</a>
                </span>
              )),
        ],
        ['Made', <Time key="made" at={it.created_at} />],
        ['Changed', <Time key="changed" at={it.updated_at} />],
      ]}
    />
  );
}
