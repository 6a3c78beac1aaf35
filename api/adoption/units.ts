import type { SurveyedContainer } from '../../agent-protocol/survey.ts';
import { foldName } from '../../store/fold-name.ts';
import { repositoryOf } from './image.ts';
import { originOf, projectsOfDokploy } from './origin.ts';
import type { Origin } from './origin.ts';

/** Containers that do the same: one application would take their place. */
export interface Unit {
  origin: Origin;
  /** Unlike that of every other unit. */
  name: string;
  /** The one that the plan looks at; it runs if any does. */
  first: SurveyedContainer;
  all: readonly SurveyedContainer[];
  isRunning: boolean;
}

const atRest = new Set(['created', 'exited', 'dead']);

function isRunning({ state }: Pick<SurveyedContainer, 'state'>): boolean {
  return !atRest.has(state);
}

/**
 * Whether the image has a name that what made the container gives to images that it builds on the server. Newer engines
 * give these a digest, too, although no registry has them.
 */
function isBuiltHere({ image, labels }: SurveyedContainer, { maker, swarmService }: Origin): boolean {
  const repository = repositoryOf(image.name);
  const { 'com.docker.compose.project': project, 'com.docker.compose.service': service } = labels;
  if (project !== undefined && [`${project}-${service}`, `${project}_${service}`].includes(repository)) return true;
  switch (maker) {
    case 'coolify':
      return /^[a-z0-9]{20,}(?:[_-][\w.-]+)?$/.test(repository);
    case 'caprover':
      return repository.startsWith('img-captain-');
    default:
      return repository === swarmService;
  }
}

/** The container, with the digests alone by which a registry may know its image. */
function asPulled(it: SurveyedContainer, origin: Origin): SurveyedContainer {
  return isBuiltHere(it, origin) ? { ...it, image: { ...it.image, digests: [] } } : it;
}

/** The units of a server, ordered by group and service. */
export function unitsOf(containers: readonly SurveyedContainer[]): Unit[] {
  const ofDokploy = projectsOfDokploy(containers);
  const found = new Map<string, { origin: Origin; all: [SurveyedContainer, ...SurveyedContainer[]] }>();
  for (const seen of containers) {
    const origin = originOf(seen, ofDokploy);
    const one = asPulled(seen, origin);
    const { maker, group, service, identity } = origin;
    const key = JSON.stringify([maker, group, service, identity, repositoryOf(one.image.name)]);
    const unit = found.get(key);
    if (unit === undefined) found.set(key, { origin, all: [one] });
    else unit.all.push(one);
  }
  const taken = new Set<string>();
  return [...found.entries()]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { origin, all }]) => {
      const first = all.find(isRunning) ?? all[0];
      const name = freeName([origin.service, `${origin.group}-${origin.service}`], taken);
      return { origin, name, first, all, isRunning: isRunning(first) };
    });
}

/**
 * The first of the names that is free, else the last one with a number. Names of objects have at most 100 characters, and
 * are compared as the store compares them. `taken`: folded names.
 */
export function freeName(wanted: readonly [string, ...string[]], taken: Set<string>): string {
  const isFree = (text: string): boolean => !taken.has(foldName(text));
  const tries = wanted.map(asName);
  const last = tries.at(-1) ?? '';
  let name = tries.find(isFree);
  for (let n = 2; name === undefined; n += 1) if (isFree(`${last}-${n}`)) name = `${last}-${n}`;
  taken.add(foldName(name));
  return name;
}

/** A text as the name of an object: printable, without spaces at its ends. */
function asName(text: string): string {
  return text.replaceAll(/[\p{C}\s/]+/gu, '-').slice(0, 90) || 'unnamed';
}
