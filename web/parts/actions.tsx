import type { VNode } from 'preact';
import { Button } from './button.tsx';
import { Menu } from './menu.tsx';

export interface Action {
  readonly label: string;
  readonly onSelect: () => void;
  /** Why it cannot be done now. */
  readonly why?: string | undefined;
  readonly busy?: boolean | undefined;
  /** Something goes by it: it is never the primary one. */
  readonly isDanger?: boolean | undefined;
  readonly hint?: string | undefined;
}

const besidePrimary = 2;

interface ActionsProps {
  readonly label: string;
  readonly actions: readonly Action[];
  /** False where none of them is what one comes for. */
  readonly hasPrimary?: boolean;
}

/**
 * The verbs of an object: the first one that can be done is the primary button, two more stand beside it, and the rest is
 * in a menu. Refused ones say why.
 */
export function Actions({ label, actions, hasPrimary = true }: ActionsProps): VNode {
  const safe = actions.filter(({ isDanger }) => isDanger !== true);
  const primary = hasPrimary ? safe.find(({ why }) => why === undefined) : undefined;
  const beside = safe.filter((one) => one !== primary).slice(0, besidePrimary);
  const rest = actions.filter((one) => one !== primary && !beside.includes(one));
  return (
    <div class="actions" role="group" aria-label={label}>
      {primary !== undefined && (
        <Button tone="primary" busy={primary.busy} onClick={primary.onSelect}>
          {primary.label}
        </Button>
      )}
      {beside.map(({ label: word, why, busy, onSelect }) => (
        <Button key={word} why={why} busy={busy} onClick={onSelect}>
          {word}
        </Button>
      ))}
      {rest.length > 0 && (
        <Menu
          label="More actions"
          icon="more"
          entries={rest.map(({ label: word, why, isDanger, hint, onSelect }) => ({
            label: word,
            why,
            isDanger,
            hint,
            onSelect,
          }))}
        />
      )}
    </div>
  );
}
