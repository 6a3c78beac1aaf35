import type { PackageImage } from '../../harness/package-image.ts';
import type { Answer } from '../../harness/through-proxy.ts';

/** What a page is asked with. `json` and `form` are its body, with its type. */
export interface Asking {
  method?: string;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  json?: unknown;
  form?: Readonly<Record<string, string>>;
}

/** An instance of a template, as those who use the product meet it. */
export interface Site {
  readonly host: string;
  /** Variables of the application. */
  readonly env: Readonly<Record<string, string>>;
  /** Asks by HTTPS, at its own name. */
  ask(path: string, asking?: Asking): Promise<Answer>;
  /** Runs a command in its container, and answers what it prints. */
  inside(...command: string[]): Promise<string>;
  /** The database beside it, if the product asks for one. */
  readonly database: Credentials;
}

/** How a database is reached from its environment. */
export interface Credentials {
  host: string;
  user: string;
  password: string;
}

/** How often a page is looked for: what a program does after it is ready, it does soon. */
export type Soon = <T>(what: string, probe: () => Promise<T | undefined | false>) => Promise<T>;

/** A product of the catalogue: what it is run of, and what shows that it is itself and keeps what was given to it. */
export interface Product {
  /** Its folder in `manifests/templates`. */
  name: string;
  /** Takes the place of the image that the template pins: the product of a registry, used as that image is. */
  image: PackageImage;
  /** Type of a database that is there before it, beside those of its template. */
  database?: string;
  /** Values of variables, given how that database is reached. */
  variables: (database: Credentials) => Readonly<Record<string, string>>;
  /** Variables of the application that hold generated secrets. */
  secrets: readonly string[];
  upgrade: {
    /** Another release of the product. */
    image?: PackageImage;
    /** Changes the text of the template. */
    text?: (text: string) => string;
    variables?: Readonly<Record<string, string>>;
    /** What the plan shows of the application. */
    fields: readonly string[];
  };
  /** Looks at the new product, sets it up, and gives it something to keep. */
  setUp: (site: Site, soon: Soon) => Promise<void>;
  /** Looks at its page and at what it keeps, as it is with the upgrade or without. */
  look: (site: Site, isUpgraded: boolean, soon: Soon) => Promise<void>;
}

/** Replaces each text by another one. @throws Error if one is not there */
export function edited(text: string, ...edits: readonly (readonly [from: string, to: string])[]): string {
  return edits.reduce((now, [from, to]) => {
    if (!now.includes(from)) throw new Error(`The template has no ${JSON.stringify(from)}`);
    return now.replace(from, () => to);
  }, text);
}

/** The header of a login by user and password. */
export function basic(user: string, password: string | undefined): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` };
}

/** Asks as a browser does: it keeps the cookies that it gets. */
export function browser(site: Site): Site['ask'] {
  const cookies = new Map<string, string>();
  return async (path, asking = {}) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await site.ask(path, {
      ...asking,
      headers: { ...asking.headers, ...(cookie !== '' && { cookie }) },
    });
    for (const one of answer.headers['set-cookie'] ?? []) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(one) ?? [];
      cookies.set(name, value);
    }
    return answer;
  };
}
