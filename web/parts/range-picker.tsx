import type { VNode } from 'preact';
import { Button } from './button.tsx';

/** The ranges of time that a page of series or logs offers, by their word in the address. */
export const ranges = { '15m': 900, '1h': 3600, '6h': 21_600, '24h': 86_400, '7d': 604_800 } as const;
export type Range = keyof typeof ranges;

const names = Object.keys(ranges) as Range[]; // the keys of the object

/** The range that a word of an address means; the second one for another word. */
export function rangeOf(word: string | null, fallback: Range = '1h'): Range {
  return names.find((name) => name === word) ?? fallback;
}

interface RangePickerProps {
  readonly value: Range;
  readonly onChange: (range: Range) => void;
}

/** How far back all panels of a page look; the end follows the clock. */
export function RangePicker({ value, onChange }: RangePickerProps): VNode {
  return (
    <div class="button-group" role="group" aria-label="Range of time">
      {names.map((name) => (
        <Button key={name} isSmall pressed={name === value} onClick={() => onChange(name)}>
          {name.replace('m', ' min').replace('h', ' h').replace('d', ' d')}
        </Button>
      ))}
    </div>
  );
}
