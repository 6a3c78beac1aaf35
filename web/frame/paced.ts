/** Shortest time between two reads, in milliseconds. */
const paceMs = 1000;

/**
 * Returns a function that asks for a read: it begins at once, or a second after the one before began, when that has ended.
 * One read serves all that asked meanwhile, so that the answers come in order. `read` shows its own error.
 */
export function paced(read: () => Promise<void>): () => void {
  let isReading = false;
  let asked = 0;
  let served = 0;
  const begin = async (): Promise<void> => {
    isReading = true;
    while (served < asked) {
      served = asked;
      await Promise.all([read(), new Promise((resolve) => void setTimeout(resolve, paceMs))]);
    }
    isReading = false;
  };
  return () => {
    asked += 1;
    if (!isReading) void begin();
  };
}
