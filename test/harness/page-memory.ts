import type { CDPSession } from 'playwright-core';

/** What a page holds. */
export interface PageMemory {
  /** Bytes of its scripts' objects that are in use. */
  heap: number;
  /** Nodes of its documents, also of those that scripts alone still have. */
  nodes: number;
  listeners: number;
}

/** What a page holds once all that nothing refers to was collected. */
export async function memoryOf(session: CDPSession): Promise<PageMemory> {
  // what the first collection releases may be what kept others
  for (let time = 0; time < 3; time += 1) await session.send('HeapProfiler.collectGarbage');
  const { usedSize: heap } = await session.send('Runtime.getHeapUsage');
  const { nodes, jsEventListeners: listeners } = await session.send('Memory.getDOMCounters');
  return { heap, nodes, listeners };
}
