import type { VNode } from 'preact';
import type { components } from '../../api-types.d.ts';
import type { Server } from '../../model.ts';
import { Command } from '../../parts/command.tsx';
import { Notice } from '../../parts/notice.tsx';
import { labelOf } from '../../parts/schema-fields.ts';
import { Steps } from '../../parts/steps.tsx';
import type { Step } from '../../parts/steps.tsx';
import { Time } from '../../parts/time.tsx';
import { wholeOf } from './whole-server.ts';
import type { WholeServer } from './whole-server.ts';

type Join = Pick<
  components['schemas']['ServerWithJoin'],
  'install_command' | 'install_warnings' | 'join_token_expires_at'
>;

interface JoinStepsProps {
  readonly server: Server;
  /** The command to run on the machine, where it was just made. */
  readonly join?: Join | undefined;
}

/** How the machine of a server becomes one: by SSH step by step, or by a command that is run on it. */
export function JoinSteps({ server, join }: JoinStepsProps): VNode {
  const whole = wholeOf(server);
  const isBySsh = whole !== undefined && whole.ip_address !== null && whole.ssh_key_id !== null;
  return (
    <div class="stack">
      {isBySsh && server.agent_status === 'unknown' && <Provisioning server={whole} />}
      {join !== undefined && server.agent_status === 'unknown' && (
        <div class="stack-tight">
          <h3>{isBySsh ? 'Or run this on the machine yourself' : 'Run this on the machine, as root'}</h3>
          <Command text={join.install_command} />
          <p class="small quiet">
            It works once, and until <Time at={join.join_token_expires_at} />. It is shown only here.
          </p>
          {join.install_warnings.map((warning) => (
            <Notice key={warning} shape="warn">
              <p>{warning}</p>
            </Notice>
          ))}
        </div>
      )}
      <Steps label="How far it is" isDown steps={joinSteps(server)} />
    </div>
  );
}

function joinSteps(server: Server): Step[] {
  const since = wholeOf(server)?.created_at;
  if (server.agent_status === 'unknown')
    return [
      { name: 'Declared', status: 'done' },
      { name: 'Waiting for the agent', status: 'running', since },
      { name: 'Active', status: 'waiting' },
    ];
  return [
    { name: 'Declared', status: 'done' },
    { name: 'Agent connected', status: server.agent_status === 'connected' ? 'done' : 'failed' },
    { name: 'Active', status: server.status === 'active' ? 'done' : 'running' },
  ];
}

/** Conditions of a server that are not steps of its provisioning. */
const otherConditions: ReadonlySet<string> = new Set(['Ready', 'EngineReady', 'Reconciling', 'Stalled']);

/** What the control plane does on the machine by SSH, as its conditions say it. */
function Provisioning({ server }: { readonly server: WholeServer }): VNode | null {
  const steps = server.conditions.filter(({ type }) => !otherConditions.has(type));
  if (steps.length === 0) return null;
  const open = steps.find(({ status }) => status !== 'true');
  return (
    <div class="stack-tight">
      <h3>By SSH</h3>
      <Steps
        label="Provisioning"
        isDown
        steps={steps.map(({ type, status, message, last_transition_at: since }) => ({
          name: labelOf(type),
          status:
            status === 'true'
              ? ('done' as const)
              : type !== open?.type
                ? ('waiting' as const)
                : server.status === 'error'
                  ? ('failed' as const)
                  : ('running' as const),
          since,
          detail: type === open?.type || status === 'true' ? message : undefined,
        }))}
      />
    </div>
  );
}
