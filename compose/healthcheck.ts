import type { ComposedHealthcheck } from '../store/kinds/composed-service.ts';
import type { Node } from './node.ts';
import {
  readCommand,
  readFlag,
  readKeys,
  readList,
  readMap,
  readSeconds,
  readText,
  readWhole,
  withoutEffect,
} from './read-value.ts';
import type { Found, Keys } from './read-value.ts';

/** The test of a health check. `image`: that of the image; `none`: there is none. */
type Test = { command: string[] } | 'image' | 'none';

const timeKeys: readonly string[] = ['interval', 'timeout', 'retries', 'start_period'];

/** Reads `healthcheck`. */
export function readHealthcheck(node: Node, found: Found): ComposedHealthcheck {
  let test: Test = 'image';
  const check: ComposedHealthcheck = { interval_seconds: 30, timeout_seconds: 30, failures: 3, start_seconds: 0 };
  const keys: Keys<Found> = {
    test: (it) => (test = readTest(it, found) ?? test),
    disable: (it) => (test = readFlag(it, found) === true ? 'none' : test),
    interval: (it) => (check.interval_seconds = readSeconds(it, 1, 3600, found) ?? check.interval_seconds),
    timeout: (it) => (check.timeout_seconds = readSeconds(it, 1, 3600, found) ?? check.timeout_seconds),
    retries: (it) => (check.failures = readWhole(it, 1, 100, found) ?? check.failures),
    start_period: (it) => (check.start_seconds = readSeconds(it, 0, 3600, found) ?? check.start_seconds),
    start_interval: withoutEffect('an instance that starts is asked every second'),
  };
  readKeys(node, keys, found);
  return withTest(node, { check, test }, found);
}

function withTest(
  node: Node,
  { check, test }: { check: ComposedHealthcheck; test: Test },
  found: Found,
): ComposedHealthcheck {
  if (typeof test === 'object') return { ...check, command: test.command };
  const times = [...readMap(node, found)].filter(([key]) => timeKeys.includes(key));
  const why =
    test === 'none' ? 'there is no check' : 'without a test the check of the image counts, with its own times';
  for (const [, it] of times) found.findings.warn(it, `has no effect: ${why}`);
  return test === 'none' ? { ...check, none: true } : check;
}

/** `CMD-SHELL`, and a text, are a command of the shell inside the container. */
function readTest(node: Node, found: Found): Test | undefined {
  if (node.type === 'scalar') {
    const text = readText(node, found);
    return text === undefined ? undefined : ofShell(text);
  }
  const [kind, ...rest] = readList(node, found).map((it) => readText(it, found));
  switch (kind) {
    case 'NONE':
      return 'none';
    case 'CMD-SHELL':
      if (rest.length === 1 && rest[0] !== undefined) return ofShell(rest[0]);
      return found.findings.error(node, 'must have one text after CMD-SHELL');
    case 'CMD': {
      const words = readCommand(node, found)?.slice(1) ?? [];
      return words.length > 0 ? { command: words } : found.findings.error(node, 'must have a program after CMD');
    }
    default:
      return found.findings.error(node, 'must begin with CMD, CMD-SHELL or NONE');
  }
}

function ofShell(text: string): { command: string[] } {
  return { command: ['/bin/sh', '-c', text] };
}
