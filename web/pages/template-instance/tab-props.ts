import type { ObjectOf } from '../../model.ts';

export type TemplateInstance = ObjectOf<'template_instance'>;

/** What a tab of an instance gets. */
export interface TabProps {
  readonly it: TemplateInstance;
}
