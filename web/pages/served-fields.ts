import type { Login } from '../api.ts';
import { useRead } from '../frame/use-read.ts';
import type { Read } from '../frame/use-read.ts';
import { fieldsOf } from '../parts/schema-fields.ts';
import type { FieldSpec, JsonSchema } from '../parts/schema-fields.ts';

interface ServedOperation {
  readonly requestBody?: { readonly content: { readonly 'application/json'?: { readonly schema: JsonSchema } } };
}

/** What forms read of the document that the server serves. */
interface ServedDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, ServedOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

let served: Promise<ServedDocument> | undefined;

/** Reads the document once for this page. @throws Error if there is no answer */
function readDocument(): Promise<ServedDocument> {
  served ??= fetch(new URL('openapi.json', new URL('.', location.href))).then(async (answer) => {
    if (!answer.ok) throw new Error(`The document of the API could not be read: status ${answer.status}`);
    return (await answer.json()) as ServedDocument; // the server makes it of its own endpoints
  });
  served.catch(() => {
    served = undefined;
  });
  return served;
}

/** The fields that the body of a request takes, from the served document. */
export function useBodyFields(method: 'post' | 'put', path: string): Read<readonly FieldSpec[]> {
  return useRead(async () => {
    const { paths, components } = await readDocument();
    const schema = paths[path]?.[method]?.requestBody?.content['application/json']?.schema;
    if (schema === undefined) throw new Error(`The server takes no body for ${method.toUpperCase()} ${path}`);
    return fieldsOf(schema, components.schemas);
  }, [method, path]);
}

/** The path of a request with its tenant, as it is shown to be copied. */
export function shownPath({ tenant }: Pick<Login, 'tenant'>, path: string): string {
  return `${new URL('.', location.href).pathname}${tenant}${path}`;
}
