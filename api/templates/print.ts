import { stringify } from 'yaml';
import type { z } from 'zod';
import type { TemplateDatabase, TemplateVolume } from './document.ts';
import type { Variable } from './variables.ts';

/** An application as a text has it: the fields of the API, with expressions in their values. */
export type PrintedApplication = Readonly<Record<string, unknown>> & { readonly name: string };

/** A function as a text has it, in the same way; its code has no expressions. */
export type PrintedFunction = Readonly<Record<string, unknown>> & { readonly name: string; readonly code: string };

/** A template before it is a text. Lists that are empty are left out. */
export interface Printed {
  metadata: Readonly<Record<string, unknown>>;
  variables: readonly z.input<typeof Variable>[];
  volumes: readonly Partial<TemplateVolume>[];
  databases: readonly (Partial<TemplateDatabase> & { name: string })[];
  applications: readonly PrintedApplication[];
  functions?: readonly PrintedFunction[];
}

/** The text of a template. */
export function printTemplate({ metadata, ...lists }: Printed): string {
  const filled = Object.entries(lists).filter(([, list]) => list.length > 0);
  const top = { apiVersion: 'setpoint/v1', kind: 'Template', metadata, ...Object.fromEntries(filled) };
  return stringify(top, { lineWidth: 0, version: '1.2', schema: 'core', aliasDuplicateObjects: false });
}
