import type { VNode } from 'preact';
import { Actions } from '../../parts/actions.tsx';
import { Button, IconButton, LinkButton } from '../../parts/button.tsx';
import { Bytes } from '../../parts/bytes.tsx';
import { Badge, Card, Facts } from '../../parts/card.tsx';
import { Command } from '../../parts/command.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { Duration } from '../../parts/duration.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Id } from '../../parts/id.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Shape } from '../../parts/shape.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status, StatusWord } from '../../parts/status.tsx';
import { StatusCount } from '../../parts/status-count.tsx';
import { lookOfStatus, shapesByUrgency, statusesOf } from '../../parts/status-words.ts';
import type { StatusKind } from '../../parts/status-words.ts';
import { Steps } from '../../parts/steps.tsx';
import { Time } from '../../parts/time.tsx';
import { Timeline } from '../../parts/timeline.tsx';
import { Tooltip } from '../../parts/tooltip.tsx';

const minuteMs = 60_000;
const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();
const kinds: readonly StatusKind[] = [
  'application',
  'deployment',
  'instance',
  'database',
  'server',
  'agent',
  'volume',
  'backup',
  'restore',
  'run',
  'preview',
];
const nothing = (): void => undefined;

export function StatesPart(): VNode {
  return (
    <>
      <Card title="Shapes">
        <div class="row">
          {shapesByUrgency.map((shape) => (
            <span key={shape} class="status">
              <Shape of={shape} />
              {shape}
            </span>
          ))}
        </div>
      </Card>
      <Card title="Status of each kind">
        <Facts
          of={kinds.map((kind) => [
            kind,
            <span key={kind} class="row">
              {statusesOf(kind).map((status) => (
                <StatusWord key={status} look={lookOfStatus(kind, status)} />
              ))}
            </span>,
          ])}
        />
        <div class="row">
          <Status
            kind="application"
            object={{ status: 'running', replicas: 3, ready_replicas: 1 }}
            since={ago(4 * minuteMs)}
          />
          <Status
            kind="application"
            object={{ status: 'running', conditions: [{ type: 'Ready', status: 'false', reason: 'Failed' }] }}
          />
          <Status kind="server" object={{ status: 'hibernating' }} />
        </div>
        <StatusCount
          label="Servers by status"
          of={statusesOf('server').map((status, at) => ({
            look: lookOfStatus('server', status),
            count: at,
            href: `#${status}`,
            isActive: at === 2,
          }))}
        />
      </Card>
      <Card title="Buttons">
        <div class="row">
          <Button tone="primary">Primary</Button>
          <Button>Usual</Button>
          <Button tone="plain">Plain</Button>
          <Button tone="danger">Danger</Button>
          <Button isSmall>Small</Button>
          <Button icon="plus">With a picture</Button>
          <Button busy>Busy</Button>
          <Button why="The application runs already">Refused</Button>
          <Button tone="primary" why="Give it a name first">
            Refused primary
          </Button>
          <IconButton icon="refresh" label="Read again" onClick={nothing} />
          <LinkButton href="#gallery">A link</LinkButton>
        </div>
        <Actions
          label="Actions of web"
          actions={[
            { label: 'Deploy', onSelect: nothing },
            { label: 'Restart', onSelect: nothing },
            { label: 'Start', onSelect: nothing, why: 'The application runs already' },
            { label: 'Scale', onSelect: nothing, hint: 's' },
            { label: 'Roll back', onSelect: nothing, why: 'There is no earlier success' },
            { label: 'Delete', onSelect: nothing, isDanger: true },
          ]}
        />
      </Card>
      <Card title="Small values">
        <Facts
          of={[
            ['Time', <Time at={ago(4 * minuteMs)} />],
            ['Long ago', <Time at={ago(400 * 1440 * minuteMs)} />],
            ['Duration', <Duration from={ago(124_000)} to={ago(0)} />],
            ['Going on', <Duration from={ago(41_000)} />],
            ['Bytes', <Bytes of={12_884_901_888} />],
            ['Id', <Id of="0198c0de-1234-7abc-8def-0123456789ab" />],
            [
              'Badges',
              <span class="row">
                <Badge>none</Badge>
                <Badge tone="good">good</Badge>
                <Badge tone="busy">busy</Badge>
                <Badge tone="warn">warn</Badge>
                <Badge tone="bad">bad</Badge>
              </span>,
            ],
            [
              'Tooltip',
              <Tooltip text="It only repeats or explains">
                <button type="button" class="link-button">
                  Hover or focus
                </button>
              </Tooltip>,
            ],
          ]}
        />
      </Card>
      <Card title="Steps">
        <Steps
          label="Steps of a deployment"
          steps={[
            { name: 'Queue', status: 'done', ms: 2000 },
            { name: 'Build', status: 'running', since: ago(39_000) },
            { name: 'Roll out', status: 'waiting' },
            { name: 'Ready', status: 'waiting' },
          ]}
        />
        <Steps
          label="Steps that failed"
          isDown
          steps={[
            { name: 'Log in', status: 'done', ms: 420, detail: 'root@203.0.113.7' },
            { name: 'Packages', status: 'failed', detail: 'apt-get: no space left on device' },
            { name: 'Agent', status: 'skipped' },
          ]}
        />
      </Card>
      <Card title="Conditions">
        <Conditions
          of={[
            {
              type: 'Ready',
              status: 'true',
              reason: 'Connected',
              message: 'Its agent is connected',
              last_transition_at: ago(minuteMs),
            },
            {
              type: 'Stalled',
              status: 'true',
              reason: 'ImageNotFound',
              message: 'Image example.test/x:9 was not found on fsn1: check its name, or add a registry',
              last_transition_at: ago(4 * minuteMs),
            },
            { type: 'Reconciling', status: 'true', reason: 'Deploying', message: '', last_transition_at: ago(5000) },
            {
              type: 'BackedUp',
              status: 'unknown',
              reason: 'NeverTried',
              message: 'No backup yet',
              last_transition_at: ago(5000),
            },
          ]}
          remedyOf={({ type }) => (type === 'Stalled' ? <Button isSmall>Open registries</Button> : undefined)}
        />
        <Conditions of={[]} />
      </Card>
      <Card title="Timeline">
        <Timeline
          label="What happened"
          entries={[
            {
              key: '1',
              at: ago(2 * minuteMs),
              shape: 'warn',
              title: 'Drift corrected: a container was removed by hand',
            },
            {
              key: '2',
              at: ago(4 * minuteMs),
              shape: 'info',
              title: 'ada changed replicas',
              detail: '2 to 3',
              cause: 'x',
            },
            { key: '3', at: ago(4 * minuteMs), shape: 'info', title: 'ada changed memory', cause: 'y' },
            { key: '4', at: ago(60 * minuteMs), shape: 'good', title: 'Deployment 40 succeeded' },
          ]}
        />
        <Timeline label="Nothing" entries={[]} />
      </Card>
      <Card title="Told in place">
        <Notice shape="good">
          <p>It worked.</p>
        </Notice>
        <Notice shape="warn" actions={<Button isSmall>Confirm</Button>}>
          <p>Something needs a look.</p>
        </Notice>
        <Notice shape="info">
          <p>Something to know.</p>
        </Notice>
        <ErrorBox
          error={{
            message: 'The name is taken',
            requestId: '0198c0de-aaaa-7abc-8def-0123456789ab',
            details: [{ field: 'name', message: 'web exists in production' }],
          }}
          onRetry={nothing}
        />
        <Skeleton />
        <Command text="curl -fsSL https://setpoint.example/install.sh | sh -s -- --token sj_0123456789" />
        <EmptyState
          title="No server has joined"
          action={<Button tone="primary">New server</Button>}
          command="setpoint create server NAME"
        >
          A server is a machine of yours on which applications run.
        </EmptyState>
        <Gone what="Server fsn1" at={ago(10_000)} back={{ href: '#servers', label: 'All servers' }} />
      </Card>
    </>
  );
}
