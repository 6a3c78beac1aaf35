import type { Node } from '../../compose/node.ts';

/** Fields that are numbers or booleans. Every other value is text as it is written, so that `1.10` stays what it is. */
const typed = new Set([
  'required',
  'generate',
  'length',
  'min',
  'max',
  'replicas',
  'exposed_port',
  'connection_pooling',
  'require_tls',
  'port',
  'read_only',
  'autodeploy',
  'autodeploy_interval',
  'submodules',
  'max_surge',
  'min_healthy_seconds',
  'healthy_deadline',
  'drain_seconds',
  'stop_grace_seconds',
  'timeout_seconds',
  'min_instances',
  'max_instances',
  'concurrency',
  'interval_seconds',
  'start_seconds',
  'interval',
  'timeout',
  'start_period',
  'retries',
  'failures',
  'successes',
  'status',
  'pids_limit',
  'soft',
  'hard',
  'max_body_bytes',
]);
/** The field of a declaration that is used as it is: code has `${…}` of its own. */
export const literalKey = 'code';
/** Maps whose keys are names that the author chose. */
const named = new Set(['env', 'build_args', 'build_secrets', 'parameters', 'labels', 'set']);

/** The value that a node stands for; `text` changes each text. */
export function valueOf(node: Node, text: (text: string, isInEnv: boolean) => string = (it) => it): unknown {
  return read(node, text, { isTyped: false, isNamed: false, isInEnv: false, isWhole: true, isLiteral: false });
}

interface Around {
  isTyped: boolean;
  /** Its keys are names. */
  isNamed: boolean;
  /** It is below `env`. */
  isInEnv: boolean;
  /** It is the declaration itself. */
  isWhole: boolean;
  isLiteral: boolean;
}

function read(node: Node, text: Parameters<typeof valueOf>[1] & {}, around: Around): unknown {
  switch (node.type) {
    case 'list':
      return node.items.map((item) => read(item, text, { ...around, isTyped: false, isNamed: false, isWhole: false }));
    case 'map':
      return Object.fromEntries(
        [...node.fields].map(([key, value]) => [
          key,
          read(value, text, {
            isTyped: !around.isNamed && typed.has(key),
            isNamed: !around.isNamed && named.has(key),
            isInEnv: around.isInEnv || (!around.isNamed && key === 'env'),
            isWhole: false,
            isLiteral: around.isWhole && key === literalKey,
          }),
        ]),
      );
    case 'scalar':
      if (node.value === null) return null;
      if (around.isLiteral) return typeof node.value === 'string' ? node.value : node.text;
      if (typeof node.value !== 'string') return around.isTyped ? node.value : node.text;
      return around.isTyped ? typedOf(text(node.value, around.isInEnv)) : text(node.value, around.isInEnv);
  }
}

/** A number or a boolean that came of a variable. */
function typedOf(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d{1,15}(\.\d{1,6})?$/.test(text) ? Number(text) : text;
}
