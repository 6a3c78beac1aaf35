import { RuntimeFailure } from '../runtime/runtime.ts';

declare const brand: unique symbol;

/** An address that may be passed to git: it follows the grammar of {@link gitUrl}, and its protocol is allowed. */
export type GitUrl = string & { readonly [brand]: 'GitUrl' };
/** A branch name by the rules of `git check-ref-format`, without a leading dash. */
export type GitBranch = string & { readonly [brand]: 'GitBranch' };

export type GitProtocol = 'https' | 'ssh' | 'http' | 'file';

export interface ParsedGitUrl {
  url: GitUrl;
  protocol: GitProtocol;
  /** Empty for files. */
  host: string;
  /** The given port, or the default port of https and http; otherwise 0. */
  port: number;
}

/** Grammar of addresses: no credentials, no options, no `..`. */
const label = '[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?';
const host = `(?<host>${label}(?:\\.${label})*|\\[[0-9A-Fa-f:.]+\\])`;
const user = '(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)';
const path = '[A-Za-z0-9_~%+@:=,./-]+';
const forms: readonly { protocol: GitProtocol; form: RegExp }[] = [
  { protocol: 'https', form: new RegExp(`^https://${host}(?::(?<port>[0-9]{1,5}))?/${path}$`) },
  { protocol: 'http', form: new RegExp(`^http://${host}(?::(?<port>[0-9]{1,5}))?/${path}$`) },
  { protocol: 'ssh', form: new RegExp(`^ssh://${user}?${host}(?::(?<port>[0-9]{1,5}))?/${path}$`) },
  { protocol: 'ssh', form: new RegExp(`^${user}${host}:(?!-)${path}$`) },
  { protocol: 'file', form: new RegExp(`^file:///${path}$`) },
];
const defaultPorts: Partial<Record<GitProtocol, number>> = { https: 443, http: 80 };

/** Checks and parses an address. @throws RuntimeFailure `invalid_source` */
export function gitUrl(text: string, allowed: ReadonlySet<GitProtocol>): ParsedGitUrl {
  for (const { protocol, form } of forms) {
    const match = text.length <= 512 ? form.exec(text) : null;
    if (!match) continue;
    if (/(?:^|[/:])(?:-|\.\.?(?:\/|$))/.test(text.replace(/^[a-z]+:\/\//, ''))) break;
    if (!allowed.has(protocol)) throw invalid(`Repositories may not be fetched by ${protocol} on this server: ${text}`);
    return {
      url: text as GitUrl, // the grammar was checked
      protocol,
      host: match.groups?.['host'] ?? '',
      port: Number(match.groups?.['port'] ?? defaultPorts[protocol] ?? 0),
    };
  }
  throw invalid(`Not the address of a repository: ${JSON.stringify(text.slice(0, 300))}`);
}

/** Checks the name of a branch. @throws RuntimeFailure `invalid_source` */
export function gitBranch(text: string): GitBranch {
  const wrong =
    text === '' ||
    text === '@' ||
    text.length > 200 ||
    text.startsWith('-') ||
    text.endsWith('.') ||
    text.includes('..') ||
    text.includes('@{') ||
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    /[\u0000-\u0020\u007f~^:?*[\\]/.test(text) ||
    text.split('/').some((part) => part === '' || part.startsWith('.') || part.endsWith('.lock'));
  if (wrong) throw invalid(`Not the name of a branch: ${JSON.stringify(text.slice(0, 300))}`);
  return text as GitBranch; // the grammar was checked
}

/** Checks a pattern of tags: a name in which `*` and `?` may stand. @throws RuntimeFailure `invalid_source` */
export function gitTagPattern(text: string): void {
  gitBranch(text.replaceAll(/[*?]/g, 'x'));
}

/** Whether the text is the full id of a commit. */
export function isCommit(text: string): boolean {
  return /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/.test(text);
}

function invalid(message: string): RuntimeFailure {
  return new RuntimeFailure('invalid_source', message, { retryable: false });
}
