import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Field } from './field.tsx';

interface FileDropProps {
  readonly label: string;
  readonly help: string;
  readonly error?: string | undefined;
  /** Ends of names, such as `.yaml,.json`. */
  readonly accept?: string | undefined;
  readonly isMultiple?: boolean | undefined;
  readonly isOptional?: boolean | undefined;
  readonly onFiles: (files: readonly File[]) => void;
}

/** Takes files, chosen or dropped upon it. */
export function FileDrop(props: FileDropProps): VNode {
  const { label, help, error, accept, isMultiple = false, isOptional, onFiles } = props;
  const [isOver, setOver] = useState(false);
  const take = (list: FileList | null | undefined): void => {
    const files = [...(list ?? [])];
    if (files.length > 0) onFiles(isMultiple ? files : files.slice(0, 1));
  };
  return (
    <div
      class="file-drop"
      data-over={isOver ? true : undefined}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        take(event.dataTransfer?.files);
      }}
    >
      <Field label={label} help={help} error={error} isOptional={isOptional}>
        {(control) => (
          <input
            {...control}
            type="file"
            class="input"
            accept={accept}
            multiple={isMultiple}
            onChange={(event) => take(event.currentTarget.files)}
          />
        )}
      </Field>
    </div>
  );
}
