import { isNode, LineCounter, parseAllDocuments } from 'yaml';
import type { Document } from 'yaml';
import { z } from 'zod';
import { parseWritten } from '../store/faults.ts';
import type { Fault } from '../store/faults.ts';

/** A declared application. It has names instead of ids, and otherwise the field names of the API. */
export const ApplicationManifest = z.strictObject({
  apiVersion: z.literal('setpoint/v1'),
  kind: z.literal('Application'),
  metadata: z.strictObject({ name: z.string().min(1).max(100), labels: z.record(z.string(), z.string()).optional() }),
  spec: z.strictObject({
    project: z.string(),
    environment: z.string().default('production'),
    server: z.string(),
    app_type: z.enum(['web', 'worker', 'static']).optional(),
    source_type: z.enum(['git', 'image', 'compose']),
    repository_url: z.string().optional(),
    branch: z.string().optional(),
    dockerfile_path: z.string().optional(),
    build_context: z.string().optional(),
    build_args: z.record(z.string(), z.string()).optional(),
    build_secrets: z.record(z.string(), z.string()).optional(),
    /** Name of a registry. */
    registry: z.string().optional(),
    /** Name of a git credential. */
    git_credential: z.string().optional(),
    submodules: z.boolean().optional(),
    image_url: z.string().optional(),
    /** The text itself. */
    compose_file: z.string().optional(),
    /** A file of the repository instead. */
    compose_path: z.string().optional(),
    compose_service: z.string().optional(),
    /** The name by which its environment reaches it. */
    host_name: z.string().optional(),
    replicas: z.int().optional(),
    exposed_port: z.int().optional(),
    healthcheck_path: z.string().optional(),
    healthcheck: z.looseObject({ type: z.string() }).optional(),
    max_surge: z.int().optional(),
    min_healthy_seconds: z.int().optional(),
    healthy_deadline: z.int().optional(),
    drain_seconds: z.int().optional(),
    stop_grace_seconds: z.int().optional(),
    restart_policy: z.string().optional(),
    start_command: z.string().optional(),
    memory_limit: z.string().optional(),
    shm_size: z.string().optional(),
    pids_limit: z.int().optional(),
    ulimits: z.record(z.string(), z.object({ soft: z.int(), hard: z.int() })).optional(),
    cpu_limit: z.string().optional(),
    autodeploy: z.boolean().optional(),
    autodeploy_interval: z.int().optional(),
    watch_paths: z.string().optional(),
    domains: z.array(z.looseObject({ host: z.string() })).optional(),
    env: z.record(z.string(), z.string()).optional(),
  }),
});
export type ApplicationManifest = z.infer<typeof ApplicationManifest>;

const maxBytes = 256 * 1024;
const maxDocuments = 100;

/**
 * Reads the applications that a YAML text declares, separated by `---`. Merge keys (`<<`) are taken as in YAML 1.1.
 *
 * @throws Error that names the line, the field and the rule
 */
export function parseApplications(text: string): ApplicationManifest[] {
  if (Buffer.byteLength(text) > maxBytes) throw new Error(`Manifest must be at most ${maxBytes / 1024} KiB`);
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter: lines, merge: true });
  if (documents.length > maxDocuments) throw new Error(`Manifest must hold at most ${maxDocuments} documents`);
  return documents.map((document) => {
    const [syntax] = document.errors;
    if (syntax !== undefined) throw new Error(syntax.message, { cause: syntax });
    const parsed = parseWritten(ApplicationManifest, document.toJS({ maxAliasCount: 100 }), 'The manifest');
    if ('data' in parsed) return parsed.data;
    const faults = parsed.faults.map((it) => `\n  ${placeOf(document, it, lines)}${it.message}`);
    throw new Error(`This is no application manifest:${faults.join('')}`);
  });
}

/** Returns the position of the faulty value, or of the nearest value around it. */
function placeOf(document: Document, fault: Fault, lines: LineCounter): string {
  const path: unknown[] = [...fault.path];
  for (; path.length > 0; path.pop()) {
    const node = document.getIn(path, true);
    if (!isNode(node) || !node.range) continue;
    const { line, col } = lines.linePos(node.range[0]);
    return `line ${line}, column ${col}: `;
  }
  return '';
}
