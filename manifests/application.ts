import { parseAllDocuments } from 'yaml';
import { z } from 'zod';

/** A declared application: names instead of ids, the interface's own field names otherwise. */
export const ApplicationManifest = z.strictObject({
  apiVersion: z.literal('setpoint/v1'),
  kind: z.literal('Application'),
  metadata: z.strictObject({ name: z.string().min(1).max(100), labels: z.record(z.string(), z.string()).optional() }),
  spec: z.strictObject({
    project: z.string(),
    environment: z.string().default('production'),
    server: z.string(),
    app_type: z.enum(['web', 'worker', 'static']).optional(),
    source_type: z.enum(['git', 'image']),
    repository_url: z.string().optional(),
    branch: z.string().optional(),
    dockerfile_path: z.string().optional(),
    build_context: z.string().optional(),
    build_args: z.record(z.string(), z.string()).optional(),
    image_url: z.string().optional(),
    replicas: z.int().optional(),
    exposed_port: z.int().optional(),
    healthcheck_path: z.string().optional(),
    restart_policy: z.string().optional(),
    start_command: z.string().optional(),
    memory_limit: z.string().optional(),
    cpu_limit: z.string().optional(),
    autodeploy: z.boolean().optional(),
    watch_paths: z.string().optional(),
    env: z.record(z.string(), z.string()).optional(),
  }),
});
export type ApplicationManifest = z.infer<typeof ApplicationManifest>;

const maxBytes = 256 * 1024;
const maxDocuments = 100;

/**
 * Reads the applications that a YAML text declares, separated by `---`.
 *
 * @throws Error that names the line, or the document and the field, and the rule.
 */
export function parseApplications(text: string): ApplicationManifest[] {
  if (Buffer.byteLength(text) > maxBytes) throw new Error(`Manifest must be at most ${maxBytes / 1024} KiB`);
  const documents = parseAllDocuments(text);
  if (documents.length > maxDocuments) throw new Error(`Manifest must hold at most ${maxDocuments} documents`);
  return documents.map((document, index) => {
    const [syntax] = document.errors;
    if (syntax !== undefined) throw new Error(syntax.message, { cause: syntax });
    const parsed = ApplicationManifest.safeParse(document.toJS({ maxAliasCount: 100 }));
    if (parsed.success) return parsed.data;
    const faults = parsed.error.issues.map((it) => `\n  ${it.path.join('.')}: ${it.message}`).join('');
    throw new Error(`Document ${index + 1} is no application manifest:${faults}`);
  });
}
