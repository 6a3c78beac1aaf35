import type { VNode } from 'preact';
import { Notice } from '../parts/notice.tsx';
import { allServers } from './collections.ts';
import { useList } from './context.ts';

interface LogTroubleProps {
  /** Why no lines come; `undefined` while they do. */
  readonly trouble: string | undefined;
  /** The server whose agent sends them. */
  readonly serverId: string;
}

/** Says why the lines of a workload stand still: a stream that is refused before it begins has no reason of its own. */
export function LogTrouble({ trouble, serverId }: LogTroubleProps): VNode | null {
  const server = useList(allServers, 'server').objects.find(({ id }) => id === serverId);
  if (trouble === undefined) return null;
  const isAway = server !== undefined && server.agent_status !== 'connected';
  return (
    <Notice shape="warn">
      {isAway ? (
        <p>
          The agent of {server.name} is not connected: lines follow once it is back. Check that the machine runs and
          reaches this address.
        </p>
      ) : (
        <p>No lines come now: {trouble}</p>
      )}
    </Notice>
  );
}
