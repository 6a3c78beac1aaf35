import type { Duplex } from 'node:stream';

const texts = { 400: 'Bad Request', 404: 'Not Found', 503: 'Service Unavailable' } as const;

/** Answers a request for a WebSocket with an HTTP error, and ends the connection. */
export function refuseUpgrade(socket: Duplex, status: keyof typeof texts, message: string): void {
  socket.on('error', () => socket.destroy()); // the peer may be gone already
  const body = `${message}\n`;
  socket.end(
    `HTTP/1.1 ${status} ${texts[status]}\r\nConnection: close\r\nContent-Type: text/plain\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
