/** The server sends a ping every 30 s: a stream that is silent for longer than two of them is broken. */
const silenceMs = 75_000;

export const silent = 'Nothing was heard for 75 s';

/**
 * Calls back once, when a socket was silent for too long: a browser that sends nothing may never notice that its
 * connection is dead.
 */
export function listenTo(socket: WebSocket, onSilence: () => void): void {
  let timer = setTimeout(onSilence, silenceMs);
  socket.addEventListener('message', () => {
    clearTimeout(timer);
    timer = setTimeout(onSilence, silenceMs);
  });
  socket.addEventListener('close', () => clearTimeout(timer));
}
