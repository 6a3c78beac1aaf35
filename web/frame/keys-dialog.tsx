import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { places } from './keys.ts';
import { display, setDisplay } from './settings.ts';

const rows: readonly (readonly [keys: readonly string[], what: string])[] = [
  [['/'], 'Search, or do something'],
  [['Ctrl', 'K'], 'The same, in a field, too'],
  [['?'], 'This list'],
  ...Object.entries(places).map(([letter, { word }]) => [['g', letter], word] as const),
  [['j', 'k'], 'Next and previous row of a list'],
  [['Enter'], 'Open the row'],
  [['d', 'r', 'l', 't', 'e'], 'Of an application: deploy, restart, logs, terminal, environment'],
  [['l', 'e'], 'Of a function: logs, code'],
];

/** What keys do, and the switch that leaves single ones to the browser. */
export function KeysDialog({ onClose }: { onClose: () => void }): VNode {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} class="dialog" aria-labelledby="keys-title" onClose={onClose}>
      <div class="dialog-head">
        <h2 id="keys-title">Keys</h2>
      </div>
      <div class="dialog-body">
        <dl class="facts">
          {rows.map(([keys, what]) => (
            <div class="contents" key={what}>
              <dt>
                {keys.map((one) => (
                  <kbd key={one}>{one}</kbd>
                ))}
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <label class="choice">
          <input
            type="checkbox"
            checked={display.value.keys}
            onChange={({ currentTarget }) => setDisplay({ keys: currentTarget.checked })}
          />
          Single keys do something
        </label>
      </div>
      <div class="dialog-foot">
        <button class="button" onClick={() => element.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
