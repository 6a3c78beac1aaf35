import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Button, IconButton } from './button.tsx';
import { cronWords, nextFirings } from './cron-times.ts';
import type { ControlProps } from './field.tsx';
import { exactTime } from './relative-time.ts';
import {
  bytesText,
  cpuLimits,
  durationValue,
  leastMemoryBytes,
  memoryValue,
  parseBytes,
  parseCpu,
  parseDuration,
} from './units.ts';

interface TextInputProps {
  readonly control: ControlProps;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly onBlur?: (() => void) | undefined;
  readonly placeholder?: string | undefined;
  readonly type?: 'text' | 'email' | undefined;
  readonly autocomplete?: string | undefined;
  readonly isMono?: boolean | undefined;
  readonly isOff?: boolean | undefined;
  readonly inputMode?: 'numeric' | 'text' | undefined;
}

/** A text on one line. */
export function TextInput(props: TextInputProps): VNode {
  const {
    control,
    value,
    onInput,
    onBlur,
    placeholder,
    type = 'text',
    autocomplete = 'off',
    isMono,
    isOff,
    inputMode,
  } = props;
  const shared = {
    ...control,
    class: `input${isMono === true ? ' mono' : ''}`,
    value,
    placeholder,
    autocomplete,
    inputMode,
    spellcheck: false,
    disabled: isOff,
    onInput: (event: { readonly currentTarget: HTMLInputElement }) => onInput(event.currentTarget.value),
    onBlur,
  };
  return type === 'email' ? <input {...shared} type="email" /> : <input {...shared} type="text" />;
}

interface UnitInputProps {
  readonly control: ControlProps;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly onBlur?: (() => void) | undefined;
  readonly placeholder?: string | undefined;
}

/** Memory such as `512m` or `1.5 GB`; beside it stands what that is, and what the server has left. */
export function MemoryInput({
  control,
  value,
  onInput,
  onBlur,
  placeholder = '512m',
  freeBytes,
}: UnitInputProps & { readonly freeBytes?: number | undefined }): VNode {
  const bytes = value.trim() === '' ? undefined : parseBytes(value);
  return (
    <div class="input-row">
      <TextInput
        control={control}
        value={value}
        onInput={onInput}
        onBlur={() => {
          const text = memoryValue(value);
          if (text !== undefined) onInput(text);
          onBlur?.();
        }}
        placeholder={placeholder}
      />
      <span class="small quiet numeric" aria-live="polite">
        {value.trim() !== '' && (bytes === undefined ? 'Such as 512m or 1.5g' : noteOfMemory(bytes, freeBytes))}
      </span>
    </div>
  );
}

function noteOfMemory(bytes: number, freeBytes: number | undefined): string {
  if (bytes < leastMemoryBytes) return `${bytesText(bytes)}: at least ${bytesText(leastMemoryBytes)}`;
  return freeBytes === undefined ? bytesText(bytes) : `${bytesText(bytes)} of ${bytesText(freeBytes)} free`;
}

const cpuSteps = [0.01, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256] as const;

/** Cores such as `0.5`; two buttons step through the usual values. */
export function CpuInput({ control, value, onInput, onBlur, placeholder = '0.5' }: UnitInputProps): VNode {
  const cores = parseCpu(value);
  const step = (direction: 1 | -1): void => {
    const from = cores ?? 0;
    const next = direction === 1 ? cpuSteps.find((one) => one > from) : cpuSteps.findLast((one) => one < from);
    onInput(String(next ?? (direction === 1 ? cpuLimits.most : cpuLimits.least)));
  };
  return (
    <div class="input-row">
      <TextInput
        control={control}
        value={value}
        onInput={onInput}
        onBlur={() => {
          if (cores !== undefined) onInput(String(cores));
          onBlur?.();
        }}
        placeholder={placeholder}
      />
      <span class="button-group">
        <Button isSmall onClick={() => step(-1)}>
          <span aria-hidden="true">−</span>
          <span class="sr-only">Fewer cores</span>
        </Button>
        <Button isSmall onClick={() => step(1)}>
          <span aria-hidden="true">+</span>
          <span class="sr-only">More cores</span>
        </Button>
      </span>
      <span class="small quiet">
        {value.trim() !== '' && (cores === undefined ? `From ${cpuLimits.least} to ${cpuLimits.most}` : 'cores')}
      </span>
    </div>
  );
}

interface DurationInputProps {
  readonly control: ControlProps;
  /** In seconds. */
  readonly value: number | undefined;
  readonly onInput: (seconds: number | undefined) => void;
  readonly onBlur?: (() => void) | undefined;
  readonly placeholder?: string | undefined;
}

/** A length of time such as `30s`, `15m` or `7d`. */
export function DurationInput({ control, value, onInput, onBlur, placeholder = '15m' }: DurationInputProps): VNode {
  const [text, setText] = useState(value === undefined ? '' : durationValue(value));
  const seconds = parseDuration(text);
  useEffect(() => {
    if (value !== seconds) setText(value === undefined ? '' : durationValue(value));
  }, [value]);
  return (
    <div class="input-row">
      <TextInput
        control={control}
        value={text}
        onInput={(next) => {
          setText(next);
          onInput(parseDuration(next));
        }}
        onBlur={onBlur}
        placeholder={placeholder}
      />
      <span class="small quiet">
        {text.trim() !== '' && (seconds === undefined ? 'Such as 30s, 15m or 7d' : `${seconds.toLocaleString()} s`)}
      </span>
    </div>
  );
}

const revealedMs = 30_000;

interface SecretInputProps {
  readonly control: ControlProps;
  /** `undefined`: unchanged. */
  readonly value: string | undefined;
  readonly onInput: (value: string | undefined) => void;
  /** A secret is set already: the field is empty and says so. */
  readonly isSet?: boolean | undefined;
  readonly isLong?: boolean | undefined;
}

/** A secret that is only written: what is set stays until it is replaced. What is typed hides itself after 30 s. */
export function SecretInput({ control, value, onInput, isSet = false, isLong = false }: SecretInputProps): VNode {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isShown) return undefined;
    const timer = setTimeout(() => setShown(false), revealedMs);
    return () => clearTimeout(timer);
  }, [isShown]);
  const shared = {
    ...control,
    class: 'input mono',
    value: value ?? '',
    autocomplete: 'off',
    spellcheck: false,
    placeholder: isSet ? 'Unchanged' : undefined,
    'data-1p-ignore': true,
  };
  const onText = (text: string): void => onInput(text === '' && isSet ? undefined : text);
  return (
    <div class="input-row">
      {isLong ? (
        <textarea {...shared} rows={5} onInput={(event) => onText(event.currentTarget.value)} />
      ) : (
        <ShownOrHidden isShown={isShown} onText={onText} {...shared} />
      )}
      {!isLong && value !== undefined && value !== '' && (
        <IconButton
          icon={isShown ? 'hide' : 'reveal'}
          label={isShown ? 'Hide' : 'Show what was typed'}
          onClick={() => setShown(!isShown)}
        />
      )}
      {isSet && value !== undefined && (
        <Button isSmall onClick={() => onInput(undefined)}>
          Keep the present one
        </Button>
      )}
    </div>
  );
}

interface ShownOrHiddenProps extends ControlProps {
  readonly isShown: boolean;
  readonly onText: (text: string) => void;
  readonly class: string;
  readonly value: string;
  readonly placeholder: string | undefined;
}

function ShownOrHidden({ isShown, onText, ...rest }: ShownOrHiddenProps): VNode {
  const shared = {
    ...rest,
    autocomplete: 'new-password',
    spellcheck: false,
    onInput: (event: { readonly currentTarget: HTMLInputElement }) => onText(event.currentTarget.value),
  };
  return isShown ? <input {...shared} type="text" /> : <input {...shared} type="password" />;
}

const cronPresets = [
  ['Every hour', '0 * * * *'],
  ['Every night at 03:00', '0 3 * * *'],
  ['Every Sunday at 03:00', '0 3 * * 0'],
  ['Every 15 minutes', '*/15 * * * *'],
] as const;

interface CronInputProps {
  readonly control: ControlProps;
  readonly value: string;
  readonly zone: string;
  readonly onInput: (value: string) => void;
  /** From when on the next firings are shown. */
  readonly now?: Date | undefined;
}

/** A cron expression: presets, what it means, and when it fires next in its own zone and in the reader's. */
export function CronInput({ control, value, zone, onInput, now = new Date() }: CronInputProps): VNode {
  const reading = value.trim() === '' ? undefined : nextFirings(value, zone, now);
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <div class="stack-tight">
      <div class="input-row">
        <TextInput control={control} value={value} onInput={onInput} placeholder="0 3 * * *" isMono />
        <select
          class="input input-narrow"
          aria-label="Usual times"
          value=""
          onChange={(event) => {
            if (event.currentTarget.value !== '') onInput(event.currentTarget.value);
          }}
        >
          <option value="">Usual times…</option>
          {cronPresets.map(([label, expression]) => (
            <option key={expression} value={expression}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <div class="cron-next" aria-live="polite">
        {reading !== undefined && 'error' in reading && <span class="tone-bad">{reading.error}</span>}
        {reading !== undefined && 'firings' in reading && (
          <>
            <span>
              {cronWords(value) ?? 'Next'}, in the zone {zone}:
            </span>
            <ol>
              {reading.firings.map(({ at, note }) => (
                <li key={at.getTime()} class="numeric">
                  {inZone(at, zone)}
                  {zone !== own && <span> · here {exactTime(at.toISOString())}</span>}
                  {note !== undefined && <span class="tone-warn"> · {note}</span>}
                </li>
              ))}
            </ol>
          </>
        )}
      </div>
    </div>
  );
}

function inZone(at: Date, timeZone: string): string {
  return new Intl.DateTimeFormat(undefined, { timeZone, dateStyle: 'full', timeStyle: 'short' }).format(at);
}

interface CheckboxProps {
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  readonly children: ComponentChildren;
  readonly isOff?: boolean | undefined;
}

export function Checkbox({ checked, onChange, children, isOff }: CheckboxProps): VNode {
  return (
    <label class="choice">
      <input
        type="checkbox"
        checked={checked}
        disabled={isOff}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{children}</span>
    </label>
  );
}

export interface Option {
  readonly value: string;
  readonly label: string;
  readonly note?: string | undefined;
}

interface RadioProps {
  readonly name: string;
  readonly options: readonly Option[];
  readonly value: string | undefined;
  readonly onChange: (value: string) => void;
}

/** One of a few. */
export function Radios({ name, options, value, onChange }: RadioProps): VNode {
  return (
    <div class={options.some(({ note }) => note !== undefined) ? 'choices-down' : 'choices'}>
      {options.map((option) => (
        <label key={option.value} class="choice">
          <input
            type="radio"
            name={name}
            value={option.value}
            checked={option.value === value}
            onChange={() => onChange(option.value)}
          />
          <span>
            {option.label}
            {option.note !== undefined && <span class="field-help"> {option.note}</span>}
          </span>
        </label>
      ))}
    </div>
  );
}

interface SelectProps {
  readonly control: ControlProps;
  readonly options: readonly Option[];
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** One of a list that is short enough to read. */
export function Select({ control, options, value, onChange }: SelectProps): VNode {
  return (
    <select {...control} class="input" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}
