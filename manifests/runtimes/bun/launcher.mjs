// Answers HTTP with the handler of a function. With --check it only loads the handler.
const isCheck = process.argv.includes('--check');
const { default: handler } = await import('./handler.ts').catch((error) => {
  // what is wrong with the code itself, or with a package
  if (!isCheck || /^(?:SyntaxError|AggregateError|BuildMessage|ResolveMessage)$/.test(error?.name)) throw error;
  console.error(error);
  console.error(
    'The build has no variables of the function: its first instance shows whether its code loads with them',
  );
  process.exit(0);
});
if (typeof handler !== 'function') {
  console.error(
    'The code must export its handler: export default (request: Request) => new Response("Hello"). Its default export is no function',
  );
  process.exit(1);
}
if (isCheck) process.exit(0);

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
