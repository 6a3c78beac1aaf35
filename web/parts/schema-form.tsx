import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Button, IconButton } from './button.tsx';
import { Combobox } from './combobox.tsx';
import { Field, FieldGroup } from './field.tsx';
import type { ControlProps } from './field.tsx';
import { Checkbox, CpuInput, DurationInput, MemoryInput, Radios, SecretInput, TextInput } from './inputs.tsx';
import { bytesText } from './units.ts';
import { faultOf } from './schema-fields.ts';
import type { FieldSpec } from './schema-fields.ts';

export type Values = Readonly<Record<string, unknown>>;

/** What a form says otherwise than its schema: words and order, never types. */
export interface FieldWords {
  readonly label?: string;
  readonly help?: string;
  readonly placeholder?: string;
  readonly options?: Readonly<Record<string, string>>;
  readonly control?: 'memory' | 'cpu' | 'duration' | 'long-text' | 'secret' | 'long-secret';
}

export interface FormLayout {
  readonly groups: readonly {
    readonly title?: string;
    readonly fields: readonly string[];
    readonly visibleWhen?: (values: Values) => boolean;
  }[];
  readonly words?: Readonly<Record<string, FieldWords>>;
  /** Fields that another part of the page changes. */
  readonly hidden?: readonly string[];
  /** Whether a single field is shown. */
  readonly visibleWhen?: Readonly<Record<string, (values: Values) => boolean>>;
}

/** A control of a page's own, such as one that chooses a server. */
export type CustomControl = (given: {
  readonly control: ControlProps;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
}) => ComponentChildren;

interface SchemaFormProps {
  readonly fields: readonly FieldSpec[];
  readonly layout: FormLayout;
  readonly values: Values;
  readonly onChange: (values: Values) => void;
  /** What is wrong, by the name of the field. */
  readonly faults: Readonly<Record<string, string>>;
  readonly custom?: Readonly<Record<string, CustomControl>> | undefined;
  /** Secrets that are set already, by the name of the field. */
  readonly setSecrets?: ReadonlySet<string> | undefined;
}

/**
 * The fields of a form, made from a schema of the served document. The layout gives order and words; a field that it does
 * not name stands under `More`, so that a new one appears by itself.
 */
export function SchemaForm(props: SchemaFormProps): VNode {
  const { fields, layout, values } = props;
  const named = new Set([...layout.groups.flatMap((group) => group.fields), ...(layout.hidden ?? [])]);
  const others = fields.filter(({ name }) => !named.has(name));
  const isVisible = (name: string): boolean => layout.visibleWhen?.[name]?.(values) ?? true;
  const shown = (names: readonly string[]): FieldSpec[] =>
    names.flatMap((name) => fields.filter((field) => field.name === name && isVisible(name)));
  const hasFault = others.some(({ name }) => props.faults[name] !== undefined);
  return (
    <>
      {layout.groups
        .filter((group) => group.visibleWhen?.(values) ?? true)
        .map((group, at) => (
          <fieldset key={group.title ?? at} class="form-group">
            {group.title !== undefined && <legend>{group.title}</legend>}
            {shown(group.fields).map((field) => (
              <OneField key={field.name} field={field} form={props} />
            ))}
          </fieldset>
        ))}
      {others.length > 0 && (
        <details class="details" open={hasFault}>
          <summary>More</summary>
          <div class="form-group">
            {others.map((field) => (
              <OneField key={field.name} field={field} form={props} />
            ))}
          </div>
        </details>
      )}
    </>
  );
}

function OneField({ field, form }: { readonly field: FieldSpec; readonly form: SchemaFormProps }): VNode {
  const { layout, values, onChange, faults, custom = {}, setSecrets } = form;
  const [ownFault, setOwnFault] = useState<string>();
  const words = layout.words?.[field.name] ?? {};
  const value = values[field.name];
  const set = (next: unknown): void => {
    setOwnFault(undefined);
    onChange({ ...values, [field.name]: next });
  };
  return (
    <ValueField
      field={field}
      words={words}
      value={value}
      onChange={set}
      error={faults[field.name] ?? ownFault}
      onBlur={() => setOwnFault(value === undefined || value === '' ? undefined : faultOf(field, value))}
      custom={custom[field.name]}
      isSet={setSecrets?.has(field.name) ?? false}
      marksOptional={form.fields.some(({ isRequired }) => isRequired)}
    />
  );
}

interface ValueFieldProps {
  readonly field: FieldSpec;
  readonly words: FieldWords;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly error?: string | undefined;
  readonly onBlur?: (() => void) | undefined;
  readonly custom?: CustomControl | undefined;
  readonly isSet?: boolean | undefined;
  /** Others must be filled in, so that those which need not be say so. */
  readonly marksOptional?: boolean | undefined;
}

function ValueField(props: ValueFieldProps): VNode {
  const { field, words, value, onChange, error, custom } = props;
  const label = words.label ?? field.label;
  const help = words.help ?? field.help;
  if (custom === undefined) {
    if (field.kind === 'switch')
      return (
        <div class="field">
          <Checkbox checked={value === true} onChange={onChange}>
            <span class="strong">{label}</span>
            {help !== '' && <span class="field-help"> {help}</span>}
          </Checkbox>
          {error !== undefined && <span class="field-error">{error}</span>}
        </div>
      );
    if (field.kind === 'choice' && field.options.length <= 5)
      return (
        <FieldGroup label={label} help={help} error={error}>
          <Radios
            name={field.name}
            options={field.options.map((option) => ({ value: option, label: words.options?.[option] ?? option }))}
            value={typeof value === 'string' ? value : undefined}
            onChange={onChange}
          />
        </FieldGroup>
      );
    if (field.kind === 'group' || field.kind === 'items')
      return (
        <FieldGroup label={label} help={help} error={error}>
          {field.kind === 'group' ? (
            <Nested fields={field.fields} value={asRecord(value)} onChange={onChange} />
          ) : (
            <Items field={field} value={value} onChange={onChange} />
          )}
        </FieldGroup>
      );
    if (field.kind === 'map')
      return (
        <FieldGroup label={label} help={help} error={error}>
          <Pairs value={asRecord(value)} onChange={onChange} />
        </FieldGroup>
      );
  }
  const isLongText = typeof value === 'string' && field.maxLength !== undefined;
  return (
    <Field
      label={label}
      name={field.name}
      help={help}
      error={error}
      isRequired={field.isRequired}
      isOptional={props.marksOptional === true && !field.isRequired}
      count={isLongText ? { used: value.length, most: field.maxLength ?? 0 } : undefined}
    >
      {(control) =>
        custom === undefined ? <Control {...props} control={control} /> : custom({ control, value, onChange })
      }
    </Field>
  );
}

function Control(props: ValueFieldProps & { readonly control: ControlProps }): VNode {
  const { control, field, words, value, onChange, onBlur, isSet } = props;
  const text = textOf(value);
  const placeholder = words.placeholder ?? field.placeholder;
  const onText = (next: string): void => onChange(next === '' ? (field.isNullable ? null : undefined) : next);
  const kind = words.control ?? field.kind;
  const shared = { control, value: text, onInput: onText, onBlur, ...(placeholder !== '' && { placeholder }) };
  switch (kind) {
    case 'memory':
      return <MemoryInput {...shared} />;
    case 'cpu':
      return <CpuInput {...shared} />;
    case 'duration':
      return (
        <DurationInput
          control={control}
          value={typeof value === 'number' ? value : undefined}
          onInput={(seconds) => onChange(seconds ?? (field.isNullable ? null : undefined))}
          onBlur={onBlur}
          placeholder={placeholder === '' ? undefined : placeholder}
        />
      );
    case 'secret':
    case 'long-secret':
      return (
        <SecretInput
          control={control}
          value={typeof value === 'string' ? value : undefined}
          onInput={onChange}
          isSet={isSet}
          isLong={kind === 'long-secret'}
        />
      );
    default:
      return <PlainControl {...props} control={control} kind={kind} shared={shared} onText={onText} />;
  }
}

interface PlainControlProps extends ValueFieldProps {
  readonly control: ControlProps;
  readonly kind: FieldSpec['kind'];
  readonly shared: {
    readonly control: ControlProps;
    readonly value: string;
    readonly onInput: (text: string) => void;
    readonly onBlur?: (() => void) | undefined;
    readonly placeholder?: string;
  };
  readonly onText: (text: string) => void;
}

/** The controls of values that are no secrets and have no unit. */
function PlainControl({ control, field, words, value, onChange, kind, shared, onText }: PlainControlProps): VNode {
  switch (kind) {
    case 'number':
      return (
        <NumberInput
          {...shared}
          isBytes={field.name.includes('bytes')}
          onInput={(next) => {
            const isNumber = /^-?\d+(\.\d+)?$/.test(next.trim());
            if (isNumber) onChange(Number(next));
            else onText(next);
          }}
        />
      );
    case 'choice':
      return (
        <Combobox
          control={control}
          options={field.options.map((option) => ({ value: option, label: words.options?.[option] ?? option }))}
          value={shared.value === '' ? undefined : shared.value}
          onChange={onChange}
        />
      );
    case 'list':
      return <LinesInput control={control} value={value} onChange={onChange} placeholder={shared.placeholder ?? ''} />;
    case 'json':
      return <JsonInput control={control} value={value} isNullable={field.isNullable} onChange={onChange} />;
    case 'long-text':
      return (
        <textarea
          {...control}
          class="input"
          rows={6}
          spellcheck={false}
          value={shared.value}
          onInput={(event) => onText(event.currentTarget.value)}
          onBlur={shared.onBlur}
        />
      );
    case 'text':
    case 'secret':
    case 'switch':
    case 'map':
    case 'group':
    case 'items':
      return <TextInput {...shared} />;
  }
}

interface NumberProps {
  readonly control: ControlProps;
  readonly value: string;
  readonly onInput: (text: string) => void;
  readonly onBlur?: (() => void) | undefined;
  readonly placeholder?: string;
  /** It counts bytes: beside it stands how many that are. */
  readonly isBytes: boolean;
}

function NumberInput({ isBytes, ...shared }: NumberProps): VNode {
  if (!isBytes) return <TextInput {...shared} inputMode="numeric" />;
  const count = Number(shared.value);
  return (
    <div class="input-row">
      <TextInput {...shared} inputMode="numeric" />
      <span class="small quiet numeric">{shared.value !== '' && Number.isFinite(count) && bytesText(count)}</span>
    </div>
  );
}

interface LinesProps {
  readonly control: ControlProps;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly placeholder: string;
}

/** A list of texts, one a line. Numbers are sent as numbers. */
function LinesInput({ control, value, onChange, placeholder }: LinesProps): VNode {
  const given = Array.isArray(value) ? value.map(String).join('\n') : '';
  const [text, setText] = useState(given);
  return (
    <textarea
      {...control}
      class="input"
      rows={3}
      spellcheck={false}
      placeholder={placeholder === '' ? 'One a line' : placeholder}
      value={text.split('\n').filter(Boolean).join('\n') === given ? text : given}
      onInput={(event) => {
        setText(event.currentTarget.value);
        const lines = event.currentTarget.value.split('\n').map((line) => line.trim());
        const filled = lines.filter((line) => line !== '');
        onChange(filled.every((line) => /^\d+$/.test(line)) ? filled.map(Number) : filled);
      }}
    />
  );
}

/** What has no field of its own is edited as JSON; a text that is none is said, and not taken. */
function JsonInput({
  control,
  value,
  isNullable,
  onChange,
}: {
  readonly control: ControlProps;
  readonly value: unknown;
  readonly isNullable: boolean;
  readonly onChange: (value: unknown) => void;
}): VNode {
  const [typed, setTyped] = useState<{ readonly text: string; readonly means: unknown; readonly fault?: string }>();
  // a text of another value is not that of what is stored now, or was discarded
  const own = typed !== undefined && JSON.stringify(typed.means) === JSON.stringify(value) ? typed : undefined;
  const fault = own?.fault;
  const stored = value === undefined || value === null ? '' : JSON.stringify(value, undefined, 2);
  const onText = (text: string): void => {
    try {
      const means: unknown = text.trim() === '' ? (isNullable ? null : undefined) : JSON.parse(text);
      setTyped({ text, means });
      onChange(means);
    } catch (error) {
      setTyped({ text, means: value, fault: error instanceof Error ? error.message : String(error) });
    }
  };
  return (
    <div class="stack-tight">
      <textarea
        {...control}
        class="input"
        rows={5}
        spellcheck={false}
        value={own?.text ?? stored}
        aria-invalid={fault === undefined ? control['aria-invalid'] : 'true'}
        onInput={(event) => onText(event.currentTarget.value)}
      />
      {fault !== undefined && <span class="field-error">Not taken yet: {fault}</span>}
    </div>
  );
}

interface NestedProps {
  readonly fields: readonly FieldSpec[];
  readonly value: Values;
  readonly onChange: (value: unknown) => void;
}

function Nested({ fields, value, onChange }: NestedProps): VNode {
  return (
    <div class="form-group">
      {fields.map((field) => (
        <ValueField
          key={field.name}
          field={field}
          words={{}}
          value={value[field.name]}
          onChange={(next) => onChange(withValue(value, field.name, next))}
          marksOptional={fields.some(({ isRequired }) => isRequired)}
        />
      ))}
    </div>
  );
}

/** A list of objects, each with its fields. */
function Items({
  field,
  value,
  onChange,
}: {
  readonly field: FieldSpec;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
}): VNode {
  const items: readonly unknown[] = Array.isArray(value) ? value : [];
  return (
    <div class="list-field">
      {items.map((item, at) => (
        <div key={at} class="list-field-row">
          <div class="grow">
            <Nested fields={field.fields} value={asRecord(item)} onChange={(next) => onChange(items.with(at, next))} />
          </div>
          <IconButton
            icon="remove"
            label={`Remove number ${at + 1}`}
            onClick={() => onChange(items.filter((_, other) => other !== at))}
          />
        </div>
      ))}
      <span>
        <Button isSmall icon="plus" onClick={() => onChange([...items, {}])}>
          Add
        </Button>
      </span>
    </div>
  );
}

/** Names and texts, such as labels. */
function Pairs({ value, onChange }: { readonly value: Values; readonly onChange: (value: unknown) => void }): VNode {
  const pairs = Object.entries(value);
  const [name, setName] = useState('');
  return (
    <div class="list-field">
      {pairs.map(([key, text]) => (
        <div key={key} class="input-row">
          <code class="grow">{key}</code>
          <input
            class="input"
            aria-label={`Value of ${key}`}
            value={String(text)}
            onInput={(event) => onChange({ ...value, [key]: event.currentTarget.value })}
          />
          <IconButton
            icon="remove"
            label={`Remove ${key}`}
            onClick={() => onChange(Object.fromEntries(pairs.filter(([other]) => other !== key)))}
          />
        </div>
      ))}
      <div class="input-row">
        <input
          class="input"
          aria-label="Name to add"
          placeholder="Name"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <Button
          icon="plus"
          why={name.trim() === '' ? 'Enter a name first' : name in value ? `${name} is there already` : undefined}
          onClick={() => {
            onChange({ ...value, [name.trim()]: '' });
            setName('');
          }}
        >
          Add
        </Button>
      </div>
    </div>
  );
}

function asRecord(value: unknown): Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** `value` with a field set, or without it for `undefined`. */
function withValue(value: Values, name: string, next: unknown): Values {
  if (next !== undefined) return { ...value, [name]: next };
  return Object.fromEntries(Object.entries(value).filter(([other]) => other !== name));
}
