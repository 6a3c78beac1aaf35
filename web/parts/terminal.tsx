import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Button } from './button.tsx';
import type { TerminalLink } from './terminal-link.ts';
import type { TerminalHandle } from './terminal-screen.ts';

interface TerminalProps {
  readonly label: string;
  readonly link: TerminalLink;
  /** What the session does, such as `Connected` or `Ended with exit code 0`. */
  readonly state: ComponentChildren;
  readonly actions?: ComponentChildren;
}

/** A terminal: it fills its box, copies and pastes, and can fill the screen. Escape and then Tab leaves it. */
export function Terminal({ label, link, state, actions }: TerminalProps): VNode {
  const frame = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [fault, setFault] = useState<string>();
  useEffect(() => {
    let isOver = false;
    let handle: TerminalHandle | undefined;
    import('./terminal-screen.ts').then(
      ({ openTerminal }) => {
        if (isOver || box.current === null) return;
        handle = openTerminal(box.current, link, label);
      },
      (error: unknown) => setFault(error instanceof Error ? error.message : String(error)),
    );
    return () => {
      isOver = true;
      handle?.close();
    };
  }, [link]);
  const full = (): void => {
    frame.current?.requestFullscreen().catch((error: unknown) => setFault(String(error)));
  };
  return (
    <section class="terminal" ref={frame} aria-label={label}>
      <div class="log-tools">
        <span class="grow">{state}</span>
        {fault !== undefined && <span class="tone-bad">{fault}</span>}
        {actions}
        <Button isSmall icon="full" onClick={full}>
          Full screen
        </Button>
      </div>
      <div class="terminal-box" ref={box} />
    </section>
  );
}
