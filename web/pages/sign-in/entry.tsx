import type { ComponentChildren, VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Attempt } from './attempt.ts';

interface EntryProps {
  readonly title: string;
  readonly attempt: Attempt;
  readonly verb: string;
  readonly onSubmit: (form: FormData) => void;
  readonly children: ComponentChildren;
  readonly other?: ComponentChildren;
}

/** A page with one form, before anything of a tenant is shown. */
export function Entry({ title, attempt, verb, onSubmit, children, other }: EntryProps): VNode {
  useEffect(() => {
    document.title = `${title} · Setpoint`;
  }, [title]);
  const isOff = attempt.isBusy || attempt.wait > 0;
  return (
    <main class="entry">
      <p class="entry-brand">Setpoint</p>
      <form
        class="card entry-card"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isOff) onSubmit(new FormData(event.currentTarget));
        }}
      >
        <h1>{title}</h1>
        {children}
        {attempt.error !== '' && (
          <p class="notice notice-bad" role="alert">
            {attempt.error}
          </p>
        )}
        <button class="button button-primary" aria-disabled={isOff}>
          {attempt.wait > 0 ? `Again in ${attempt.wait} s` : verb}
        </button>
        {other}
      </form>
    </main>
  );
}
