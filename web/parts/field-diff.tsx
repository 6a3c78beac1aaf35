import type { ComponentChildren, VNode } from 'preact';
import type { FieldChange } from './field-changes.ts';
import { Shape } from './shape.tsx';

interface FieldDiffProps {
  readonly changes: readonly FieldChange[];
  readonly labels?: { readonly before: string; readonly after: string };
  /** Both are there at once: neither has come in place of the other. */
  readonly areBoth?: boolean;
  /** Fields whose values are not shown, only that they changed. */
  readonly secrets?: readonly string[];
  /** Who set a field, by its path. */
  readonly setBy?: Readonly<Record<string, ComponentChildren>> | undefined;
}

/** Two objects by field. Equal fields are folded; of a secret it says only that it changed. */
export function FieldDiff(props: FieldDiffProps): VNode {
  const { changes, labels = { before: 'Wanted', after: 'Observed' }, areBoth = false, secrets = [], setBy } = props;
  const different = changes.filter(({ isEqual }) => !isEqual);
  const equal = changes.filter(({ isEqual }) => isEqual);
  return (
    <div class="stack-tight">
      {different.length === 0 ? (
        <p class="quiet">All {equal.length} fields are equal.</p>
      ) : (
        <Rows {...{ labels, areBoth, secrets, setBy }} changes={different} caption="Fields that differ" />
      )}
      {different.length > 0 && equal.length > 0 && (
        <details class="details">
          <summary>{equal.length} equal</summary>
          <Rows {...{ labels, areBoth, secrets, setBy }} changes={equal} caption="Fields that are equal" />
        </details>
      )}
    </div>
  );
}

type RowsProps = Required<Pick<FieldDiffProps, 'changes' | 'labels' | 'areBoth' | 'secrets'>> &
  Pick<FieldDiffProps, 'setBy'> & { readonly caption: string };

function Rows({ changes, labels, areBoth, secrets, setBy, caption }: RowsProps): VNode {
  return (
    <div class="table-box">
      <table class="table field-diff">
        <caption class="sr-only">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">{labels.before}</th>
            <th scope="col">{labels.after}</th>
            {setBy !== undefined && <th scope="col">Set by</th>}
          </tr>
        </thead>
        <tbody>
          {changes.map(({ path, before, after, isEqual }) => {
            const isSecret = secrets.includes(path.split('.').at(-1) ?? '');
            return (
              <tr key={path}>
                <td class="table-primary">
                  <code>{path}</code>
                </td>
                <td data-label={labels.before}>
                  {valueOf(before, isSecret, isEqual ? undefined : areBoth ? 'both' : 'before')}
                </td>
                <td data-label={labels.after}>
                  <span class="status">
                    {!isEqual && <Shape of="warn" />}
                    {valueOf(after, isSecret, isEqual ? undefined : areBoth ? 'both' : 'after')}
                  </span>
                </td>
                {setBy !== undefined && <td data-label="Set by">{setBy[path] ?? ''}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function valueOf(value: string | undefined, isSecret: boolean, side: 'before' | 'after' | 'both' | undefined): VNode {
  const text = value === undefined ? 'not set' : isSecret ? (side === undefined ? '••••' : 'changed') : value;
  if (value === undefined) return <span class="quiet">{text}</span>;
  if (side === 'after') return <ins>{text}</ins>;
  return side === 'before' ? <del>{text}</del> : <span>{text}</span>;
}
