import type { Finding, Findings } from '../../compose/findings.ts';
import { badRequest } from '../ground/api-error.ts';
import type { TemplateReport } from '../resources/template.ts';
import { sections } from './document.ts';
import type { ReadTemplate } from './read.ts';
import { isNeeded, isSecret } from './variables.ts';

/** What a text declares, and what is wrong with it. */
export function toReport({ variables, resources, findings }: ReadTemplate): TemplateReport {
  return {
    valid: findings.errors.length === 0,
    errors: findings.errors.map(shown),
    warnings: findings.warnings.map(shown),
    variables: variables.map((it) => ({
      name: it.name,
      type: it.type,
      display_name: it.display_name ?? null,
      description: it.description ?? null,
      required: isNeeded(it),
      secret: isSecret(it),
      default: it.default ?? null,
      pattern: it.pattern ?? null,
      options: it.options ?? null,
      generated: it.generate !== undefined && it.generate !== false,
    })),
    resources: resources.map(({ section, name, wave }) => ({ kind: sections[section].kind, name, wave })),
  };
}

function shown({ path, line, column, message }: Finding): TemplateReport['errors'][number] {
  return { path, line, column, message };
}

/** Refuses a text that is more than may be read, or that no honest author writes. @throws ApiError BAD_REQUEST */
export function requireHonest(findings: Findings): void {
  if (findings.isRefused) throw refusal(findings.errors);
}

/** Requires that a text is a template. @throws ApiError BAD_REQUEST with each fault and its place */
export function requireValid({ findings }: ReadTemplate): void {
  if (findings.errors.length > 0) throw refusal(findings.errors);
}

function refusal(errors: readonly Finding[]) {
  const words = errors.map(({ line, column, message }) => `line ${line}, column ${column}: ${message}`);
  const more = words.length > 1 ? `, and ${words.length - 1} more: the details name them` : '';
  return badRequest(
    `The text is no valid template: ${words[0] ?? ''}${more}`,
    words.map((message) => ({ field: 'content', reason: 'invalid', message })),
  );
}
