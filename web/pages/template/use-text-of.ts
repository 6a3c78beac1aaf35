import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Read } from '../../frame/use-read.ts';
import type { ObjectOf } from '../../model.ts';
import type { Report } from './template-report.tsx';

export interface TextOf {
  readonly content: string;
  /** The version of the template that has this text. */
  readonly version: string;
  readonly report: Report;
}

/** The text of a template, which lists leave out, and what it declares. */
export function useTextOf({ id, resource_version: version }: ObjectOf<'template'>): Read<TextOf> {
  const { login } = useConsole();
  return useRead(async () => {
    const whole = await call(login, 'GET', '/api/v1/templates/{id}', { path: { id } });
    const content = whole.content ?? '';
    const report = await call(login, 'POST', '/api/v1/templates/validate', { body: { content } });
    return { content, version: whole.resource_version, report };
  }, [id, version]);
}
