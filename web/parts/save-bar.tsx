import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from './button.tsx';
import { FieldDiff } from './field-diff.tsx';
import type { FieldChange } from './field-changes.ts';
import { useUnsaved } from './use-unsaved.ts';

interface SaveBarProps {
  readonly changes: readonly FieldChange[];
  /** What saving causes, such as `nothing until the next deployment`. */
  readonly effect?: ComponentChildren;
  readonly busy: boolean;
  readonly why?: string | undefined;
  /** The form that it sends. */
  readonly form: string;
  readonly verb?: string | undefined;
  readonly onDiscard: () => void;
}

/** Stands below a form while something has changed: names it, shows the difference, and asks before the page is left. */
export function SaveBar({ changes, effect, busy, why, form, verb = 'Save', onDiscard }: SaveBarProps): VNode | null {
  const [isOpen, setOpen] = useState(false);
  const hasChanges = changes.some(({ isEqual }) => !isEqual);
  useUnsaved(hasChanges);
  if (!hasChanges) return null;
  const names = changes.filter(({ isEqual }) => !isEqual).map(({ path }) => path);
  return (
    <section class="save-bar" aria-label="Unsaved changes">
      {isOpen && <FieldDiff changes={changes} labels={{ before: 'Now', after: 'Then' }} />}
      <div class="save-bar-row">
        <span class="grow">
          <span class="strong">{names.length} changed</span>{' '}
          <span class="quiet">
            {names.slice(0, 4).join(', ')}
            {names.length > 4 && ` and ${names.length - 4} more`}
          </span>
          {effect !== undefined && <span class="small quiet"> · {effect}</span>}
        </span>
        <div class="actions">
          <Button isSmall pressed={isOpen} onClick={() => setOpen(!isOpen)}>
            Difference
          </Button>
          <Button onClick={onDiscard}>Discard</Button>
          <Button tone="primary" type="submit" form={form} busy={busy} why={why}>
            {verb}
          </Button>
        </div>
      </div>
    </section>
  );
}
