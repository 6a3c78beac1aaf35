// Answers HTTP with the handler of a function. With --check it only loads the handler.
const { default: handler } = await import('./handler.ts');
if (typeof handler !== 'function') {
  console.error(
    'The code must export its handler: export default (request: Request) => new Response("Hello"). Its default export is no function',
  );
  process.exit(1);
}
if (process.argv.includes('--check')) process.exit(0);

process.on('unhandledRejection', (error) => console.error(error));

globalThis.Bun.serve({
  port: Number(process.env['SETPOINT_PORT'] ?? 8080),
  hostname: '0.0.0.0',
  idleTimeout: 0,
  async fetch(request) {
    try {
      const response = await handler(request);
      if (!(response instanceof Response)) throw new TypeError('The handler must return a Response');
      return response;
    } catch (error) {
      console.error(error);
      return new Response('The function failed: see its log\n', { status: 500 });
    }
  },
});
process.on('SIGTERM', () => process.exit(0));
