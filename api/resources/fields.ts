import { X509Certificate } from 'node:crypto';
import { z } from 'zod';
import { tagLimits } from '../../agent-protocol/tag-pattern.ts';
import { parseCommand } from '../../store/kinds/command.ts';
import { memoryPattern, parseCpus, parseMemory } from '../../store/kinds/quantity.ts';
import { valuesByName } from '../../store/kinds/variables.ts';
import { maxWatchPathsChars, parseWatchPaths } from '../../store/kinds/watch-paths.ts';

/** Formats of fields that reach a program, a file system or an address. Each is checked again where it is used. */

// control characters, and characters that reorder or hide text
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** A line of text without control characters. */
export const Line = z.string().refine((text) => !hidden.test(text), 'Must not contain control characters');

/**
 * Text of several lines: line breaks and tabs are its only control characters, and it has no characters that reorder or
 * hide text.
 */
export const FreeText = z
  .string()
  .refine((text) => !hidden.test(text.replaceAll(/[\n\r\t]/g, '')), 'Must not contain control characters');

/** Certificates in PEM, one or several. */
export const Certificates = z
  .string()
  .max(65_536)
  .regex(
    /^(\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----)+\s*$/,
    'Must be certificates in PEM',
  )
  .refine(areCertificates, 'Must be certificates in PEM, each of which can be read');

function areCertificates(text: string): boolean {
  const blocks = text.split(/(?=-----BEGIN CERTIFICATE-----)/).filter((it) => it.trim() !== '');
  try {
    return blocks.every((it) => new X509Certificate(it).raw.length > 0);
  } catch {
    return false;
  }
}

/** A branch or tag, by the rules of git. */
export const GitRef = z
  .string()
  .min(1)
  .max(200)
  .refine(
    isGitRef,
    'Must be a git branch, tag or commit: no leading -, no space, none of ~^:?*[\\, no .. or @{, no .lock at its end',
  );

/** The names of tags, as `matchesTag` reads it. */
export const TagPattern = z
  .string()
  .min(1)
  .max(tagLimits.patternChars)
  .refine(
    (pattern) => isGitRef(pattern.replaceAll(/[*?]/g, 'x')),
    'Must be the name of a tag, in which * stands for any characters and ? for one, neither for a slash: no leading -, no space, none of ~^:[\\, no .. or @{, no .lock at its end',
  );

function isGitRef(ref: string): boolean {
  return !/[\p{C}\s~^:?*[\\]/u.test(ref) && !/^[-/]|\.\.|@\{|\/\/|\/\.|^\.|[./]$|\.lock(\/|$)/.test(ref) && ref !== '@';
}

/**
 * `https://`, `http://`, `ssh://`, `file://` or `user@host:path`. The URL is stored and shown as it is, so that a
 * possible credential is refused: a password, a query, and over http a user, too, as tokens are sent in its place.
 */
export const RepositoryUrl = z
  .string()
  .min(1)
  .max(512)
  .refine(isRepositoryUrl, 'Must be an https, http, ssh or file address of a git repository, without credentials');

/** The agent's own settings decide which of these protocols its server fetches by. */
function isRepositoryUrl(text: string): boolean {
  if (/[\p{C}\s\\]/u.test(text)) return false;
  if (/^[A-Za-z0-9_][\w.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-/:][^:]*$/.test(text)) return true;
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.protocol === 'file:') return url.host === '' && url.pathname !== '/';
  if (url.password !== '' || url.search !== '' || url.hash !== '' || url.hostname.startsWith('-')) return false;
  return url.protocol === 'ssh:' || (/^https?:$/.test(url.protocol) && url.username === '');
}

/** The registry of an image reference, `HOST` or `HOST:PORT` in lower case; `undefined` if it names none. */
export function registryOf(image: string): string | undefined {
  const first = image.slice(0, Math.max(0, image.indexOf('/'))).toLowerCase();
  return /[.:]/.test(first) || first === 'localhost' ? first : undefined;
}

/** A path inside a repository: relative, without `..`. */
export const RelativePath = z
  .string()
  .min(1)
  .max(255)
  .refine(
    (path) => !hidden.test(path) && !/^[/~-]|\\/.test(path) && !path.split('/').includes('..'),
    'Must be a relative path without .. and backslash',
  );

/** A refinement by the parser of a grammar: the fault that the parser finds is the answer. */
function parsedBy(parse: (text: string) => object) {
  return (text: string, context: z.RefinementCtx): void => {
    const parsed: { fault?: string } = parse(text);
    if (parsed.fault !== undefined) context.addIssue({ code: 'custom', message: parsed.fault });
  };
}

/** The files of a repository whose change triggers a deployment, in the syntax of {@link parseWatchPaths}. */
export const WatchPaths = z.string().max(maxWatchPathsChars).superRefine(parsedBy(parseWatchPaths)).meta({
  description:
    'Patterns of paths, separated by newline or comma: * within a segment, ** across, ? one character, ! excludes',
});

/** Path of an HTTP request. */
export const HttpPath = z
  .string()
  .max(1024)
  .regex(/^\/[\x21-\x7e]*$/, 'Must begin with / and have no spaces');

/** Bytes with a unit, at least 6m. */
export const MemoryLimit = z
  .string()
  .regex(memoryPattern, 'Must be a size such as 512m or 1.5g')
  .superRefine(parsedBy(parseMemory));

/** Number of CPUs as a decimal. */
export const CpuLimit = z
  .union([z.string().regex(/^\d{1,3}(\.\d{1,6})?$/, 'Must be a number of CPUs such as 0.5'), z.number()])
  .transform(String)
  .superRefine(parsedBy(parseCpus))
  .meta({ override: { type: 'string', pattern: '^\\d{1,3}(\\.\\d{1,6})?$' } });

/** The command that a container runs instead of the one of its image. */
export const StartCommand = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => !text.includes('\0') && text.trim() !== '', 'Must not be blank')
  .refine((text) => !hidden.test(text.replaceAll(/[\n\r\t]/g, '')), 'Must not contain control characters')
  .superRefine(parsedBy(parseCommand));

/** Variables of the environment. */
export const EnvValues = valuesByName('variables');

/** Arguments of a build: keys and certificates are values of several lines. */
export const BuildArgValues = valuesByName('arguments');

/** Of a compose file. */
export const ServiceName = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?$/, 'Must be the name of a service')
  .optional()
  .meta({ description: 'Only of this service of its compose file' });
