import type { VNode } from 'preact';

export function App(): VNode {
  return (
    <main>
      <h1>Setpoint</h1>
    </main>
  );
}
