/**
 * Compares the types of the API that the console uses, `web/api-types.d.ts`, with what the API's document gives.
 * Usage: node test/clients/console-types.ts [--write]
 */
import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { endpointsByArea } from '../../api/routes/endpoints.ts';
import { openApiDocument } from '../../api/pages/openapi.ts';

const name = 'web/api-types.d.ts';
const file = join(import.meta.dirname, '..', '..', name);
const generator = join(import.meta.dirname, 'node_modules', '.bin', 'openapi-typescript');

const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } });
// neither the version nor the URL has a part in the types
const document = openApiDocument(endpointsByArea, { version: '0', publicUrl: '' });
const types = execFileSync(process.execPath, [generator], {
  cwd: import.meta.dirname,
  input: JSON.stringify(document),
  encoding: 'utf8',
});
if (values.write) await writeFile(file, types);
else if ((await readFile(file, 'utf8')) !== types) {
  console.error(
    `${name} differs from what the API's document gives, so the console is checked against another API than this one. ` +
      'Generate it again: npm run console-types',
  );
  process.exitCode = 1;
}
