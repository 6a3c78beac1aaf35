/** Greets whoever calls, in the language that they ask for; a call by a schedule writes a line. */
const greetings = { de: 'Hallo', en: 'Hello', fr: 'Bonjour' };

export default async function handle(request) {
  const url = new URL(request.url);
  const scheduled = request.headers.get('x-setpoint-scheduled-at');
  if (scheduled !== null) {
    console.log(`Called for ${scheduled}`);
    return new Response(null, { status: 204 });
  }
  const asked = (request.headers.get('accept-language') ?? 'en').slice(0, 2);
  const name = url.searchParams.get('name') ?? ((await request.text()) || 'world');
  return Response.json({ message: `${greetings[asked] ?? greetings.en}, ${name}!` });
}
