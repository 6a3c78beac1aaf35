import type { Findings } from '../../compose/findings.ts';
import type { Node } from '../../compose/node.ts';
import { mentionsOf } from './declared.ts';
import type { Declared } from './declared.ts';

/** Declarations of a kind are made after those of the kinds before. */
const floor = { volumes: 0, databases: 1, applications: 2, functions: 2 } as const;

function keyOf({ section, name }: Pick<Declared, 'section' | 'name'>): string {
  return `${section}.${name}`;
}

/** The declarations with their waves, in the order in which they are made: each after all that it refers to. */
export function orderOf(resources: readonly Declared[], findings: Findings): Declared[] {
  const byKey = new Map(resources.map((it) => [keyOf(it), it]));
  const levels = new Map<string, number>();
  const open: string[] = [];
  const levelOf = (it: Declared): number => {
    const key = keyOf(it);
    const known = levels.get(key);
    if (known !== undefined) return known;
    if (open.includes(key)) {
      const circle = [...open.slice(open.indexOf(key)), key].join(' → ');
      findings.error(it.node, `is in a circle of references: ${circle}`);
      return floor[it.section];
    }
    open.push(key);
    let level: number = floor[it.section];
    for (const other of neededBy(it)) {
      const found = byKey.get(other);
      if (found !== undefined && found !== it) level = Math.max(level, levelOf(found) + 1);
    }
    open.pop();
    levels.set(key, level);
    return level;
  };
  const mounted = new Map<string, string>();
  for (const it of resources) checkNames(it, { byKey, mounted }, findings);
  const all = resources.map((it) => ({ it, level: levelOf(it) }));
  const used = [...new Set(all.map(({ level }) => level))].toSorted((a, b) => a - b);
  return all.map(({ it, level }) => ({ ...it, wave: used.indexOf(level) })).toSorted((a, b) => a.wave - b.wave);
}

/** Keys of what a declaration needs before it. */
function neededBy(it: Declared): string[] {
  return [
    ...mentionsOf(it).map(({ mention }) => `${mention.of}.${mention.name}`),
    ...mountsOf(it).map(({ text }) => `volumes.${text}`),
    ...dependenciesOf(it).map(({ text }) => `applications.${text}`),
  ];
}

function scalar(node: Node | undefined): { at: Node; text: string }[] {
  return node?.type === 'scalar' && typeof node.value === 'string' ? [{ at: node, text: node.value }] : [];
}

function itemsOf(node: Node | undefined): readonly Node[] {
  return node?.type === 'list' ? node.items : [];
}

function mountsOf({ node }: Declared): { at: Node; text: string }[] {
  return itemsOf(node.fields.get('volumes')).flatMap((it) =>
    it.type === 'map' ? scalar(it.fields.get('volume')) : [],
  );
}

function dependenciesOf({ node }: Declared): { at: Node; text: string }[] {
  return itemsOf(node.fields.get('depends_on')).flatMap(scalar);
}

/** `mounted`: volumes with the application that mounts them. */
function checkNames(
  it: Declared,
  { byKey, mounted }: { byKey: ReadonlyMap<string, Declared>; mounted: Map<string, string> },
  findings: Findings,
): void {
  for (const { at, text } of mountsOf(it)) {
    if (!byKey.has(`volumes.${text}`))
      findings.error(at, `names the volume ${text}, which the template does not declare`);
    const other = mounted.get(text);
    if (other !== undefined)
      findings.error(at, `names the volume ${text}, which ${other} mounts: one application mounts it`);
    mounted.set(text, keyOf(it));
  }
  for (const { at, text } of dependenciesOf(it))
    if (!byKey.has(`applications.${text}`))
      findings.error(at, `names the application ${text}, which the template does not declare`);
}
