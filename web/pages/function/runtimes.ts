import type { Fn } from './tab-props.ts';

export type Runtime = Fn['runtime'];

interface RuntimeWords {
  readonly label: string;
  /** What a handler is, for somebody who writes the first one. */
  readonly handler: string;
  /** Code to begin with. */
  readonly starter: string;
  /** The form of the dependencies. */
  readonly dependencies: string;
}

const web = {
  handler: 'A module whose default export gets a Request and returns a Response.',
  starter: `/** Greets whoever calls it by name. */
export default async function handle(request: Request): Promise<Response> {
  const name = new URL(request.url).searchParams.get('name') ?? 'world';
  return Response.json({ message: \`Hello, \${name}!\` });
}
`,
};

export const runtimes: Readonly<Record<Runtime, RuntimeWords>> = {
  node20: {
    label: 'Node.js 20',
    handler: web.handler,
    starter: web.starter.replace('request: Request): Promise<Response>', 'request)'),
    dependencies: '{"left-pad": "1.3.0"}',
  },
  bun: { label: 'Bun', ...web, dependencies: '{"left-pad": "1.3.0"}' },
  deno: { label: 'Deno', ...web, dependencies: '{"imports": {"@std/text": "jsr:@std/text@1"}}' },
  python3: {
    label: 'Python 3',
    handler: 'A function named handler, which returns text, bytes, JSON or (status, headers, body).',
    starter: `def handler(request):
    """Greets whoever calls it by name."""
    name = request.query.get('name', 'world')
    return {'message': f'Hello, {name}!'}
`,
    dependencies: '["requests==2.32.3"]',
  },
  go: {
    label: 'Go',
    handler: 'A file of package main with a function Handler, and without main.',
    starter: `package main

import (
	"fmt"
	"net/http"
)

// Handler greets whoever calls it by name.
func Handler(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if name == "" {
		name = "world"
	}
	fmt.Fprintf(w, "Hello, %s!\\n", name)
}
`,
    dependencies: '{"github.com/google/uuid": "v1.6.0"}',
  },
};

export function isRuntime(text: unknown): text is Runtime {
  return typeof text === 'string' && text in runtimes;
}

/** Whether nobody has written anything yet in the place of the code to begin with. */
export function isStarter(code: unknown): boolean {
  return code === undefined || code === '' || Object.values(runtimes).some(({ starter }) => starter === code);
}

/** What the dependencies of a runtime look like. */
export function dependenciesHelp(runtime: Runtime): string {
  return `JSON, such as ${runtimes[runtime].dependencies}. Scripts of packages do not run.`;
}
