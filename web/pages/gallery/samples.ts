import { LogRing } from '../../parts/log-ring.ts';
import type { LogLine } from '../../parts/log-ring.ts';
import type { FieldSpec, JsonSchema } from '../../parts/schema-fields.ts';
import { fieldsOf } from '../../parts/schema-fields.ts';

const esc = '\u001B';
const texts = [
  'GET /healthz 200 2 ms',
  `${esc}[32minfo${esc}[0m listening on ${esc}[1m:3000${esc}[0m`,
  `${esc}[33mwarn${esc}[0m slow query 812 ms: select * from orders where created_at > now()`,
  `${esc}[31merror${esc}[0m upstream 502 ${esc}[2m(attempt 2)${esc}[0m`,
  `${esc}[38;5;75mblue of 256${esc}[0m and ${esc}[38;2;200;60;200mof 16 million${esc}[0m`,
  'a line that is longer than the window is wide: ' + 'abcdefghij '.repeat(30),
] as const;
const levels = ['info', 'info', 'warn', 'error', 'debug', 'info'] as const;
const steps = ['fetch', 'build', 'push'] as const;

/** A log of this many lines, with steps, colours, several sources and a gap. */
export function sampleLog(lines: number): LogRing {
  const ring = new LogRing();
  const start = Date.now() - lines * 20;
  const all = Array.from({ length: lines }, (_, at): LogLine => {
    const shared = { at: start + at * 20, source: at % 3 === 0 ? 'web/2' : 'api/1', seq: -1 };
    if (at % Math.ceil(lines / steps.length) === 0)
      return {
        ...shared,
        text: steps[Math.floor(at / Math.ceil(lines / steps.length))] ?? '',
        level: 'info',
        mark: 'step',
      };
    if (at === Math.floor(lines / 2))
      return { ...shared, text: '214 lines are missing here', level: 'warn', mark: 'gap' };
    return {
      ...shared,
      text: texts[at % texts.length] ?? '',
      level: levels[at % levels.length] ?? 'info',
      mark: 'line',
    };
  });
  ring.push(all);
  return ring;
}

/** Values that go up and down, with a hole. */
export function sampleValues(count: number, middle: number, swing: number): (number | null)[] {
  return Array.from({ length: count }, (_, at) => {
    if (at > count * 0.6 && at < count * 0.66) return null;
    return middle + swing * Math.sin(at / 9) + (swing / 3) * Math.sin(at / 2.3);
  });
}

const schema: JsonSchema = {
  type: 'object',
  required: ['name', 'kind'],
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 20, description: 'How people call it' },
    kind: { type: 'string', enum: ['web', 'worker', 'static'] },
    memory_limit: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    cpu_limit: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    timeout_seconds: { type: 'integer', minimum: 1, maximum: 3600, default: 60 },
    port: { type: 'integer', minimum: 1, maximum: 65_535 },
    password: { type: 'string', minLength: 8 },
    is_public: { type: 'boolean', description: 'Answers without a login' },
    watch_paths: { type: 'array', items: { type: 'string' } },
    labels: { type: 'object', additionalProperties: { type: 'string' } },
    domains: {
      type: 'array',
      items: { type: 'object', properties: { host: { type: 'string' }, port: { type: 'integer' } } },
    },
    something_new: { type: 'string', description: 'A field that the layout does not know' },
  },
};

export const sampleFields: readonly FieldSpec[] = fieldsOf(schema, {});

export const sampleBefore = `services:
  web:
    image: example.test/web:8
    ports: ["80:3000"]
    environment:
      LOG_LEVEL: info
      CACHE: "on"
      REGION: fsn1
      WORKERS: "4"
  db:
    image: postgres:17
`;

export const sampleAfter = sampleBefore
  .replace('web:8', 'web:9')
  .replace('LOG_LEVEL: info', 'LOG_LEVEL: debug')
  .concat('    volumes: ["data:/var/lib/postgresql/data"]\n');
