import { surveyLimits } from '../../agent-protocol/survey.ts';
import type { SurveyedContainer } from '../../agent-protocol/survey.ts';
import { isOwnName } from './image-reference.ts';
import { labels as ours, stageType } from './runtime.ts';
import type { ListedImage } from './runtime.ts';

type Labels = Readonly<Record<string, string>>;

/** Whether an agent made the container: it has the labels and the name that agents give. */
export function isOfAgent(names: readonly string[], labels: Labels): boolean {
  const { [ours.server]: server, [ours.assignment]: assignment } = labels;
  if (server === undefined || assignment === undefined) return false;
  return names.some((name) => name.startsWith('sp-') && name.endsWith(`-${assignment.slice(0, 8)}`));
}

/**
 * Whether an agent built the image, and a user gave it no name of their own. An image that a user commits from a container
 * of an agent, or builds from an image of one, inherits the labels.
 */
export function isImageOfAgent({ names, labels }: Pick<ListedImage, 'names' | 'labels'>): boolean {
  const type = labels[ours.type];
  return (type === 'build' || type === stageType) && names.every(isOwnName);
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
