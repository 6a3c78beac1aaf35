import type { z } from 'zod';
import { Findings } from '../../compose/findings.ts';
import { isBlank } from '../../compose/node.ts';
import type { MapNode, Node } from '../../compose/node.ts';
import { readYaml } from '../../compose/read-yaml.ts';
import { parseWritten } from '../../store/faults.ts';
import { scalarsOf } from './declared.ts';
import type { Declared } from './declared.ts';
import { Metadata, ResourceName, sectionNames, sections } from './document.ts';
import type { Section } from './document.ts';
import { isMention, parseExpression } from './expression.ts';
import type { Mention, Part, Use } from './expression.ts';
import { maxRenderedChars, templateLimits } from './limits.ts';
import { orderOf } from './order.ts';
import { valueOf } from './plain.ts';
import { PatternTime } from './pattern-time.ts';
import { sampleOf, Variable, variableFault } from './variables.ts';

/** What a text declares as a template. With errors, the rest is what could be read. */
export interface ReadTemplate {
  metadata: Metadata;
  variables: readonly Variable[];
  /** In the order in which they are made. */
  resources: readonly Declared[];
  findings: Findings;
}

/** Reads a text as a template. Pure; its time is bounded for any text. */
export function readTemplate(text: string): ReadTemplate {
  const findings = new Findings('The template');
  const empty = { metadata: {}, variables: [], resources: [], findings };
  const top = readYaml(text, (value) => ({ text: value, blank: [] }), findings);
  if (top === undefined) return empty;
  if (top.type !== 'map') {
    findings.error(top, 'must be a map with apiVersion, kind, metadata and what it declares');
    return empty;
  }
  const known = new Set<string>(['apiVersion', 'kind', 'metadata', 'variables', ...sectionNames]);
  for (const [key, node] of top.fields)
    if (!known.has(key) && !key.startsWith('x-')) findings.error(node, 'is not known');
  expect(top, 'apiVersion', 'setpoint/v1', findings);
  expect(top, 'kind', 'Template', findings);
  const metadata = checked(top.fields.get('metadata'), Metadata, findings) ?? {};
  const variables = readVariables(top.fields.get('variables'), findings);
  const found = sectionNames.flatMap((section) => readSection(section, top.fields.get(section), findings));
  if (found.length === 0) findings.error(top, `must declare something: ${sectionNames.join(', ')}`);
  if (found.length > templateLimits.resources)
    findings.error(
      top,
      `must declare at most ${templateLimits.resources} volumes, databases, applications and functions`,
    );
  const resources = found.slice(0, templateLimits.resources);
  checkExpressions(resources, variables, findings);
  checkBodies(resources, variables, findings);
  return { metadata, variables, resources: orderOf(resources, findings), findings };
}

function expect(top: MapNode, key: string, value: string, findings: Findings): void {
  const node = top.fields.get(key);
  if (node?.type !== 'scalar' || node.text !== value)
    findings.error(node ?? { ...top, key }, `must have ${key}: ${value}`);
}

/** The items of a list that may be absent. */
function itemsOf(node: Node | undefined, findings: Findings): readonly MapNode[] {
  if (node === undefined || isBlank(node)) return [];
  if (node.type !== 'list') {
    findings.error(node, 'must be a list');
    return [];
  }
  return node.items.filter((item): item is MapNode => {
    if (item.type !== 'map') findings.error(item, 'must be a map');
    return item.type === 'map';
  });
}

function readVariables(node: Node | undefined, findings: Findings): readonly Variable[] {
  const items = itemsOf(node, findings);
  if (node !== undefined && items.length > templateLimits.variables)
    findings.error(node, `must be at most ${templateLimits.variables} variables`);
  const names = new Set<string>();
  const patterns = new PatternTime();
  return items.slice(0, templateLimits.variables).flatMap((item) => {
    const it = checked(item, Variable, findings);
    if (it === undefined) return [];
    const fault = names.has(it.name) ? 'has the name of another variable' : variableFault(it, patterns);
    names.add(it.name);
    if (fault !== undefined) findings.error(item.fields.get('name') ?? item, fault);
    return fault === undefined ? [it] : [];
  });
}

function readSection(section: Section, node: Node | undefined, findings: Findings): Declared[] {
  const names = new Set<string>();
  return itemsOf(node, findings).flatMap((item) => {
    const name = item.fields.get('name');
    const parsed = ResourceName.safeParse(name === undefined ? undefined : valueOf(name));
    if (!parsed.success) {
      findings.error(name ?? item, name === undefined ? 'must have a name' : lowered(parsed.error.issues[0]?.message));
      return [];
    }
    if (names.has(parsed.data)) findings.error(name ?? item, 'is the name of another one');
    names.add(parsed.data);
    return [{ section, name: parsed.data, node: item, wave: 0 }];
  });
}

function lowered(message = 'is no name'): string {
  return `${message.charAt(0).toLowerCase()}${message.slice(1)}`;
}

function checkExpressions(resources: readonly Declared[], variables: readonly Variable[], findings: Findings): void {
  const declared = new Set(variables.map(({ name }) => name));
  const used = new Set<string>();
  const known = new Set(resources.map(({ section, name }) => `${section}.${name}`));
  for (const { section, name, node } of resources)
    for (const { at, text, isSecret } of scalarsOf(node)) {
      const parsed = parseExpression(text);
      if ('fault' in parsed) {
        findings.error(at, parsed.fault);
        continue;
      }
      for (const part of parsed.parts) {
        if (typeof part === 'string') continue;
        if (!isMention(part)) used.add(part.variable);
        const own = `${section}.${name}`;
        const fault = isMention(part) ? mentionFault(part, { known, own, isSecret }) : useFault(part, declared);
        if (fault !== undefined) findings.error(at, fault);
      }
    }
  for (const { name } of variables)
    if (!used.has(name))
      findings.warn({ path: 'variables', key: name, line: 1, column: 1 }, `declares ${name}, which nothing uses`);
}

function useFault({ variable }: Use, declared: ReadonlySet<string>): string | undefined {
  if (declared.has(variable)) return undefined;
  return `uses the variable ${variable}, which variables does not declare: declare it, or write $\${${variable}} for the text itself`;
}

function mentionFault(
  { of, name, attribute }: Mention,
  { known, own, isSecret }: { known: ReadonlySet<string>; own: string; isSecret: boolean },
): string | undefined {
  if (!known.has(`${of}.${name}`)) return `refers to ${of}.${name}, which the template does not declare`;
  if (own === `${of}.${name}` && !isSecret)
    return 'refers to what it is in itself, which only variables may: write it into env';
  const isOfVariables = of === 'databases' && ['password', 'url', 'pooled_url', 'ca'].includes(attribute);
  return isOfVariables && !isSecret
    ? `takes ${attribute} of a database, which only variables may have: write it into env`
    : undefined;
}

const tooLong = `is longer than ${maxRenderedChars / 1024} KiB in all, with the values of its variables`;

/** Judges each declaration as it would be with sample values. What hangs on a value that is not known is judged later. */
function checkBodies(resources: readonly Declared[], variables: readonly Variable[], findings: Findings): void {
  const samples = new Map(variables.map((it) => [it.name, it]));
  const sampleFor = (part: Part): string => {
    if (typeof part === 'string') return part;
    if (isMention(part)) return part.attribute.endsWith('port') ? '8080' : 'example';
    const it = samples.get(part.variable);
    return it === undefined ? 'example' : (part.fallback ?? sampleOf(it));
  };
  let chars = 0;
  const sampled = (text: string): string => {
    const parsed = parseExpression(text);
    if ('fault' in parsed) return text;
    let result = '';
    for (const part of parsed.parts) {
      const sample = sampleFor(part);
      chars += sample.length;
      if (chars > maxRenderedChars) return result; // it is said below
      result += sample;
    }
    return result;
  };
  const isKnown = (part: Part): boolean => {
    if (typeof part === 'string') return true;
    return !isMention(part) && (part.fallback ?? samples.get(part.variable)?.default) !== undefined;
  };
  const isOpen = (node: Node): boolean =>
    [...scalarsOf(node)].some(({ text }) => {
      const parsed = parseExpression(text);
      return 'fault' in parsed || !parsed.parts.every(isKnown);
    });
  for (const { section, node } of resources) {
    const parsed = parseWritten(sections[section].schema, valueOf(node, sampled), 'The template');
    if (chars > maxRenderedChars) return findings.error({ ...node, path: '' }, tooLong);
    if ('data' in parsed) continue;
    for (const { path, rule } of parsed.faults) {
      const { at, isExact } = nodeAt(node, path);
      if (!isExact || !isOpen(at)) findings.error({ ...at, path: pathOf(node.path, path) }, rule);
    }
  }
}

function pathOf(around: string, path: readonly (string | number)[]): string {
  return [around, ...path.map(String)].join('.');
}

/** The node at a path, or the nearest one around it. */
function nodeAt(node: Node, path: readonly (string | number)[]): { at: Node; isExact: boolean } {
  const [first, ...rest] = path;
  if (first === undefined) return { at: node, isExact: true };
  const next =
    node.type === 'map' ? node.fields.get(String(first)) : node.type === 'list' ? node.items[Number(first)] : undefined;
  return next === undefined ? { at: node, isExact: false } : nodeAt(next, rest);
}

/** Reads what has no variables in it. */
function checked<S extends z.ZodType>(node: Node | undefined, schema: S, findings: Findings): z.output<S> | undefined {
  if (node === undefined || isBlank(node)) return undefined;
  const parsed = parseWritten(schema, valueOf(node), 'The template');
  if ('data' in parsed) return parsed.data;
  for (const { path, rule } of parsed.faults)
    findings.error({ ...nodeAt(node, path).at, path: pathOf(node.path, path) }, rule);
  return undefined;
}
