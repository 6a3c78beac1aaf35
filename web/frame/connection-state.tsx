import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useConsole } from './context.ts';

/** A short break is not worth a word. */
const quietMs = 3000;
/** After so many attempts the way to the server is in question, not the server. */
const manyAttempts = 3;

/** Whether the page follows the control plane, and of when it is otherwise. */
export function ConnectionState(): VNode {
  const { watch } = useConsole();
  const now = watch.connection.value;
  const since = now.state === 'lost' ? now.since : undefined;
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    setLong(false);
    if (since === undefined) return;
    const timer = setTimeout(() => setLong(true), Math.max(0, since + quietMs - Date.now()));
    return () => clearTimeout(timer);
  }, [since]);
  const isLost = since !== undefined && isLong;
  return (
    <span class={`connection ${isLost ? 'connection-lost' : ''}`} role="status">
      {isLost && now.state === 'lost' ? (
        <>
          As of {new Date(now.since).toLocaleTimeString()}
          <span class="sr-only">: the connection is lost</span>
          {(now.why !== undefined || now.attempts >= manyAttempts) && (
            <span class="connection-why">
              {now.why ?? 'If a proxy is in between, it must pass WebSockets (Connection: Upgrade)'}
            </span>
          )}
        </>
      ) : (
        <span class={now.state === 'connecting' ? 'sr-only' : 'connection-live'}>
          {now.state === 'connecting' ? 'Connecting' : 'Live'}
        </span>
      )}
    </span>
  );
}
