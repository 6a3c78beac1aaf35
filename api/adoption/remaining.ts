import { scopeOf } from './origin.ts';
import { list } from './findings.ts';
import { stopping } from './plan.ts';
import type { Planned } from './plan.ts';
import { shellWord } from '../../store/shell-word.ts';
import type { Unit } from './units.ts';
import type { WantedApplication, WantedVolume } from './wanted.ts';

/** Variables of an application that name another container of its network, by what that becomes. */
export interface Mention {
  /** Names of variables. */
  variables: readonly string[];
  /** How the other one is called in the network of both. */
  called: string;
  /** Name of the entry of the plan that the other one is. */
  becomes: string;
}

/** An application that was made. */
export interface Made {
  wanted: WantedApplication;
  isDeployed: boolean;
  mentions: readonly Mention[];
}

/** Which variables of a unit name others that it shares a network with, and will not reach by these names. */
export function mentionsIn(
  values: Readonly<Record<string, string>>,
  unit: Unit,
  plan: readonly Planned[],
): readonly Mention[] {
  const own = unit.first.networks.filter((name) => scopeOf(name) === 'own');
  return plan.flatMap(({ entry, unit: other }) => {
    if (entry.kind === 'volume' || other === undefined || other === unit || other.origin.isTool) return [];
    if (!other.first.networks.some((name) => own.includes(name))) return [];
    const names = [...new Set([other.origin.service, ...other.all.map(({ name }) => name)])];
    return names.flatMap((called) => {
      const variables = Object.entries(values).flatMap(([name, value]) => (hasWord(value, called) ? [name] : []));
      return variables.length === 0 ? [] : [{ variables, called, becomes: entry.name }];
    });
  });
}

/** Whether a text has a name that is no part of another one. */
function hasWord(text: string, word: string): boolean {
  if (!text.includes(word)) return false;
  const pattern = word.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
  return new RegExp(String.raw`(?<![\w.-])${pattern}(?![\w-]|\.\w)`).test(text);
}

/**
 * Whether a deployment of it can succeed without a change by hand. A copy of data is waited for, and is made once the old
 * container has stopped, so that its port is free then, too. No instance waits for a port alone: it would be refused.
 */
export function isDeployable(wanted: WantedApplication, mentions: readonly Mention[], opensPorts: boolean): boolean {
  const { planned, unit } = wanted;
  if (mentions.length > 0) return false;
  const isPortTaken = opensPorts && unit.isRunning && planned.entry.why.some(({ code }) => code === 'port_taken');
  return !isPortTaken || isCopiedOnceStopped(wanted);
}

function isCopiedOnceStopped({ unit, mounts }: WantedApplication): boolean {
  return unit.isRunning && mounts.some(({ readOnly }) => !readOnly);
}

/** How steps call what was made. */
interface Naming {
  /** By the name of the entry. */
  internalIds: ReadonlyMap<string, string>;
  /** Name of the project. */
  project: string;
}

/** What is left to do by hand once they are made, in this order. */
export function remainingSteps(
  made: readonly Made[],
  volumes: readonly WantedVolume[],
  { internalIds, project }: Naming,
): string[] {
  const bound = new Set(made.flatMap(({ wanted }) => wanted.mounts.map(({ volume }) => volume)));
  const within = `--project ${shellWord(project)}`;
  const single = volumes.filter((one) => !bound.has(one));
  return [
    ...single.flatMap((one) => stepsOfVolume(one, within)),
    ...made.flatMap((one) => stepsOf(one, internalIds, within)),
    ...made.flatMap(({ wanted }) => later(wanted)),
  ];
}

function stepsOfVolume({ name, writer }: WantedVolume, within: string): string[] {
  return [
    ...(writer === undefined ? [] : [`${stopping(writer)}: what is in volume ${name} is copied then`]),
    `setpoint bind ${shellWord(name)} APPLICATION PATH ${within}`,
  ];
}

function stepsOf(
  { wanted, isDeployed, mentions }: Made,
  internalIds: ReadonlyMap<string, string>,
  within: string,
): string[] {
  const { unit, planned } = wanted;
  const { name, possible } = planned.entry;
  const word = shellWord(name);
  const stop = stopping(unit);
  if (isDeployed) {
    if (isCopiedOnceStopped(wanted))
      return [`${stop}: its data is copied then, and ${name} starts by itself once that is done`];
    return unit.isRunning ? [`Once ${name} serves: ${stop}`] : [];
  }
  const changes = mentions.map(({ variables, called, becomes }) => {
    const id = internalIds.get(becomes);
    const place = id === undefined ? `the internal_id of what ${becomes} becomes` : id;
    return `Change ${list(variables)} of ${name}, which ${variables.length === 1 ? 'has' : 'have'} the name ${called}: in Setpoint that is ${place} (setpoint env set ${word} NAME=VALUE ${within})`;
  });
  const before = possible === 'with_a_stop';
  return [
    ...changes,
    ...(before ? [stop] : []),
    `setpoint deploy ${word} ${within}`,
    ...(unit.isRunning && !before ? [`Once ${name} serves: ${stop}`] : []),
  ];
}

const afterwards: ReadonlySet<string> = new Set(['ports_closed', 'domains']);

function later({ planned: { entry } }: WantedApplication): string[] {
  return entry.notes.flatMap(({ code, message }) => (afterwards.has(code) ? [`${entry.name}: ${message}`] : []));
}
