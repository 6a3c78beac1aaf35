import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Server } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Id } from '../../parts/id.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Meter, Spark } from '../../parts/spark.tsx';
import { Time } from '../../parts/time.tsx';
import { Timeline } from '../../parts/timeline.tsx';
import { bytesText, percentText } from '../../parts/units.ts';
import { JoinSteps } from './join-steps.tsx';
import { RemovalsHeld } from './removals-held.tsx';
import { useServerMetrics } from './use-server-metrics.ts';
import { whyNotAdmin, wholeOf } from './whole-server.ts';
import type { WholeServer } from './whole-server.ts';

/** The server at a glance: what it lacks first, then its load, what it is, and what happened. */
export function Overview({ server }: { readonly server: Server }): VNode {
  const { me } = useConsole();
  const whole = wholeOf(server);
  const isAdmin = whyNotAdmin(me.value?.role) === undefined;
  return (
    <>
      {server.agent_status === 'disconnected' && (
        <Notice shape="warn">
          <p>
            Its agent is away. What runs on it goes on, and domains that lead to it still answer; deployments, logs and
            terminals of it wait until the agent is back.
          </p>
        </Notice>
      )}
      {whole !== undefined && <RemovalsHeld server={whole} />}
      {server.agent_status === 'unknown' && whole !== undefined && isAdmin && <Joining server={whole} />}
      {server.agent_status !== 'unknown' && <Load server={server} />}
      <div class="cards">
        {whole !== undefined && server.agent_status !== 'unknown' && (
          <Card title="What its controllers say">
            <Conditions of={whole.conditions} />
          </Card>
        )}
        <About server={server} />
        {isAdmin && server.agent_status !== 'unknown' && <Tunnel server={server} />}
      </div>
      {isAdmin && <Happened server={server} />}
    </>
  );
}

/** Until its agent has connected: the command, made anew by a click, and how far it is. */
function Joining({ server }: { readonly server: WholeServer }): VNode {
  const { login } = useConsole();
  const act = useAct();
  const [join, setJoin] = useState<Awaited<ReturnType<typeof renew>>>();
  const renew = () => call(login, 'POST', '/api/v1/servers/{id}/join-token', { path: { id: server.id } });
  const make = async (): Promise<void> => {
    await act.run(async () => setJoin(await renew()));
  };
  return (
    <Card
      title="How its machine joins"
      actions={
        <Button busy={act.busy} onClick={() => void make()}>
          {join === undefined ? 'Show the command' : 'Make a new command'}
        </Button>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <JoinSteps server={server} join={join} />
      {join === undefined && (
        <p class="small quiet">The command is made anew each time; the one before no longer works then.</p>
      )}
    </Card>
  );
}

function Load({ server }: { readonly server: Server }): VNode {
  const href = useHref();
  const metrics = useServerMetrics(server, '1h');
  const { last } = metrics;
  return (
    <Card title="Load" actions={<a href={href(['servers', server.id, 'metrics'])}>All metrics</a>}>
      {metrics.error !== undefined && <ErrorBox error={metrics.error} onRetry={metrics.again} />}
      {last === undefined ? (
        metrics.error === undefined && <Skeleton lines={2} label="Reading the load" />
      ) : (
        <div class="cards cards-small">
          <div class="stack-tight">
            <div class="row-apart small">
              <span>Processor{last.cores !== undefined && <span class="quiet"> · {last.cores} cores</span>}</span>
              <span class="numeric">{last.cpu === null ? '–' : percentText(last.cpu)}</span>
            </div>
            <Spark label="Processor" values={metrics.ring.column(0)} format={percentText} width={240} isWide />
          </div>
          {last.memory !== null && last.memoryTotal !== null && (
            <Meter label="Memory" used={last.memory} total={last.memoryTotal} format={bytesText} />
          )}
          {last.disk !== null && last.diskTotal !== null && (
            <Meter label="Disk" used={last.disk} total={last.diskTotal} format={bytesText} />
          )}
        </div>
      )}
    </Card>
  );
}

function About({ server }: { readonly server: Server }): VNode {
  const whole = wholeOf(server);
  return (
    <Card title="About">
      <Facts
        of={[
          ['Id', <Id of={server.id} />],
          ['Address', whole?.ip_address],
          ['Agent', whole?.agent_version],
          [
            'Engine',
            whole === undefined || whole.runtime === null
              ? undefined
              : `${whole.runtime} ${whole.runtime_version ?? ''}`,
          ],
          ['Host key', whole?.host_key === null ? undefined : <code>{whole?.host_key.fingerprint}</code>],
          ['Web traffic', whole === undefined ? undefined : trafficText(whole)],
          ['Logs are kept', whole === undefined ? undefined : `${whole.log_retention_days} d`],
          ['Made', whole === undefined ? undefined : <Time at={whole.created_at} />],
        ]}
      />
    </Card>
  );
}

function trafficText({ ingress }: WholeServer): string {
  if (ingress === null || !ingress.enabled) return 'It has no proxy';
  return `Ports ${ingress.http_port} and ${ingress.https_port}${ingress.wildcard_domain === null ? '' : `, *.${ingress.wildcard_domain}`}`;
}

function Tunnel({ server }: { readonly server: Server }): VNode {
  const { login } = useConsole();
  const status = useRead(
    () => call(login, 'GET', '/api/v1/servers/{id}/tunnel-status', { path: { id: server.id } }),
    [server.id, server.agent_status],
  );
  const it = status.data;
  return (
    <Card title="Connection of its agent">
      {status.error !== undefined && <ErrorBox error={status.error} onRetry={status.again} />}
      {it === undefined ? (
        status.error === undefined && <Skeleton lines={3} />
      ) : (
        <Facts
          of={[
            [it.connected ? 'Connected' : 'Away', it.since === null ? undefined : <Time at={it.since} />],
            ['Round trip', it.latency_ms === null ? undefined : `${Math.round(it.latency_ms)} ms`],
            ['Lost in 24 h', `${it.reconnects_24h} times`],
            [
              'Last trouble',
              it.last_error === null ? undefined : (
                <span>
                  {it.last_error.message} · <Time at={it.last_error.at} />
                </span>
              ),
            ],
          ]}
        />
      )}
    </Card>
  );
}

const shownEvents = 30;

function Happened({ server }: { readonly server: Server }): VNode {
  const { login } = useConsole();
  const changedAt = wholeOf(server)?.updated_at;
  const events = useRead(
    () => call(login, 'GET', '/api/v1/servers/{id}/events', { path: { id: server.id } }),
    [server.id, server.status, server.agent_status, changedAt],
  );
  return (
    <Card title="What happened">
      {events.error !== undefined && <ErrorBox error={events.error} onRetry={events.again} />}
      {events.data === undefined ? (
        events.error === undefined && <Skeleton lines={3} />
      ) : (
        <Timeline
          label={`What happened to ${server.name}`}
          entries={events.data.slice(0, shownEvents).map((one) => ({
            key: `${one.reason} ${one.about ?? ''} ${one.first_at}`,
            at: one.last_at,
            shape: one.type === 'warning' ? 'warn' : 'info',
            title: one.message === '' ? one.reason : one.message,
            detail: one.count > 1 ? `${one.reason}, ${one.count} times` : one.reason,
          }))}
        />
      )}
    </Card>
  );
}
