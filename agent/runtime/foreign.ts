import { surveyLimits, withheld } from '../../agent-protocol/survey.ts';
import type { SurveyedContainer } from '../../agent-protocol/survey.ts';
import { labels as ours } from './runtime.ts';

type Labels = Readonly<Record<string, string>>;

/** Whether an agent made the container: it has the labels and the name that agents give. */
export function isOfAgent(names: readonly string[], labels: Labels): boolean {
  const { [ours.server]: server, [ours.assignment]: assignment } = labels;
  if (server === undefined || assignment === undefined) return false;
  return names.some((name) => name.startsWith('sp-') && name.endsWith(`-${assignment.slice(0, 8)}`));
}

/** Whether an agent made the volume. One that was put back by hand has no labels, but the name. */
export function isVolumeOfAgent(name: string, labels: Labels): boolean {
  return labels[ours.server] !== undefined || name.startsWith('sp-vol-');
}

const known =
  /^(?:com\.docker\.compose\.(?:project|service|oneoff)|com\.docker\.stack\.namespace|com\.docker\.swarm\.service\.name|coolify\.(?:managed|type|name|resourceName|projectName|environmentName|applicationId|databaseId|serviceId|pullRequestId|serviceName|service\.subName)|traefik\.http\.routers\.[\w@-]{1,100}\.rule|traefik\.http\.services\.[\w@-]{1,100}\.loadbalancer\.server\.port|org\.opencontainers\.image\.source)$/;

/** The labels that say who made a container; others can have anything in them, passwords too. */
export function tellingLabels(labels: Labels): Record<string, string> {
  const telling = Object.entries(labels).filter(([name, value]) => known.test(name) && value.length <= 1000);
  return Object.fromEntries(telling.slice(0, surveyLimits.list).map(([name, value]) => [name, withoutUser(value)]));
}

/** The user of an address can be a token. */
function withoutUser(text: string): string {
  return text.replaceAll(/(:\/\/)[^\s/@]*@/g, '$1');
}

const secretName = String.raw`[\w-]*(?:pass|pwd|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key)[\w-]*`;
/** `--password=x`, `PASSWORD=x`, `--requirepass x` within one word, such as the text of a shell. */
const assigned = new RegExp(String.raw`(${secretName}(?:\s*[=:]\s*|\s+))("[^"]*"|'[^']*'|[^\s"';|&]+)`, 'gi');
/** A flag whose value is the next word. */
const flag = new RegExp(String.raw`^--?${secretName}$`, 'i');
/** The password of an address. */
const inAddress = /([a-z][a-z0-9+.-]*:\/\/[^\s:/@]*:)([^\s@/]+)(@)/gi;

/**
 * The words of a command, with {@link withheld} in place of what looks like a secret: the value of an option or a
 * variable whose name says so, and the password of an address. What refers to a variable is no secret.
 */
export function withoutSecrets(words: readonly string[]): string[] {
  return words.map((word, at) => {
    if (at > 0 && flag.test(words[at - 1] ?? '') && !word.startsWith('-')) return isReference(word) ? word : withheld;
    return word
      .replaceAll(inAddress, (whole, before: string, value: string, after: string) =>
        isReference(value) ? whole : `${before}${withheld}${after}`,
      )
      .replaceAll(assigned, (whole, before: string, value: string) =>
        isReference(value) || value.startsWith('-') ? whole : `${before}${withheld}`,
      );
  });
}

function isReference(value: string): boolean {
  return /^["']?\$[\w{]/.test(value);
}

/** Where a health check asks, if it asks its own container by HTTP. One with a query is not shown: it may hold a secret. */
export function healthOf(test: readonly string[]): SurveyedContainer['health'] {
  const [kind] = test;
  if (kind === undefined || kind === 'NONE') return undefined;
  const own = /\bhttp:\/\/(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::(\d{1,5}))?(\/[^\s"'|;&)]*)?/gi;
  const [found, ...others] = [...test.join(' ').matchAll(own)];
  if (found === undefined || others.length > 0) return {};
  const [, port = '80', path = '/'] = found;
  if (path.includes('?') || path.includes('$') || Number(port) > 65_535) return {};
  return { port: Number(port), path };
}
