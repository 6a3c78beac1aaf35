import type { VNode } from 'preact';
import { Combobox } from '../../parts/combobox.tsx';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { Checkbox, CronInput, MemoryInput, Radios, SecretInput, TextInput } from '../../parts/inputs.tsx';
import { labelOf } from '../../parts/schema-fields.ts';
import type { Variable } from './template-report.tsx';

interface VariableFieldProps {
  readonly variable: Variable;
  /** `undefined`: what it is without a value. */
  readonly value: string | undefined;
  readonly error: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}

const fewOptions = 5;

/** A field for a variable of a template, by its type. */
export function VariableField({ variable, value, error, onChange }: VariableFieldProps): VNode {
  const { name, type, default: usual, generated, required, options } = variable;
  const label = variable.display_name ?? labelOf(name);
  const help = helpOf(variable);
  if (type === 'boolean')
    return (
      <div class="field">
        <Checkbox
          checked={(value ?? usual) === 'true'}
          onChange={(checked) => onChange(String(checked) === usual ? undefined : String(checked))}
        >
          <span class="strong">{label}</span>
          {help !== '' && <span class="field-help"> {help}</span>}
        </Checkbox>
        {error !== undefined && <span class="field-error">{error}</span>}
      </div>
    );
  if (options !== null && options.length <= fewOptions)
    return (
      <FieldGroup label={label} help={help} error={error}>
        <Radios
          name={name}
          options={options.map((one) => ({ value: one, label: one }))}
          value={value ?? usual ?? undefined}
          onChange={onChange}
        />
      </FieldGroup>
    );
  const isNeeded = required && usual === null && !generated;
  const onText = (text: string): void => onChange(text === '' ? undefined : text);
  return (
    <Field label={label} name={name} help={help} error={error} isRequired={isNeeded} isOptional={!isNeeded}>
      {(control) => {
        const shared = { control, value: value ?? '', onInput: onText, placeholder: usual ?? undefined };
        if (options !== null)
          return (
            <Combobox
              control={control}
              options={options.map((one) => ({ value: one, label: one }))}
              value={value ?? usual ?? undefined}
              onChange={onChange}
            />
          );
        switch (type) {
          case 'password':
          case 'secret':
            return <SecretInput control={control} value={value} onInput={(text) => onText(text ?? '')} />;
          case 'size':
            return <MemoryInput {...shared} placeholder={usual ?? '512m'} />;
          case 'cron':
            return <CronInput control={control} value={value ?? usual ?? ''} zone="UTC" onInput={onText} />;
          case 'number':
          case 'port':
            return <TextInput {...shared} inputMode="numeric" />;
          case 'email':
            return <TextInput {...shared} type="email" />;
          case 'string':
          case 'enum':
          case 'domain':
            return <TextInput {...shared} />;
        }
      }}
    </Field>
  );
}

function helpOf({ description, default: usual, generated }: Variable): string {
  const without = usual === null && generated ? 'Empty: one is made for you.' : '';
  return [description ?? '', without].filter((part) => part !== '').join(' ');
}
