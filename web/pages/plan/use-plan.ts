import { useRef, useState } from 'preact/hooks';
import { useAct } from '../../frame/use-act.ts';
import type { Act } from '../../frame/use-act.ts';
import { whyNotPlanned } from './plan-words.ts';
import type { Plan } from './plan-words.ts';

interface Planned<T> {
  /** The answer to the request for the plan alone; it is dropped once what it was asked for is another. */
  readonly answer: T | undefined;
  readonly plan: Plan | undefined;
  readonly forced: ReadonlySet<string>;
  readonly force: (forced: ReadonlySet<string>) => void;
  /** Why the plan cannot be done now. */
  readonly why: string | undefined;
  readonly planning: Act;
  readonly doing: Act;
  readonly ask: () => Promise<boolean>;
  readonly run: () => Promise<boolean>;
  readonly drop: () => void;
}

interface Change<T> {
  /** Asks for the plan alone. */
  readonly ask: () => Promise<T>;
  readonly planOf: (answer: T) => Plan | undefined;
  /** Does it. `force`: the keys of the steps that were decided; `planned`: what was answered with the plan. */
  readonly run: (force: string[], planned: T | undefined) => Promise<unknown>;
}

/** A change that is looked at first: its plan, what of it is decided, and doing it. */
export function usePlan<T>({ ask, planOf, run }: Change<T>): Planned<T> {
  const planning = useAct();
  const doing = useAct();
  const [answer, setAnswer] = useState<{ readonly of: T }>();
  const [forced, setForced] = useState<ReadonlySet<string>>(new Set());
  const turn = useRef(0);
  const plan = answer === undefined ? undefined : planOf(answer.of);
  const drop = (): void => {
    turn.current += 1;
    setAnswer(undefined);
    setForced(new Set());
    planning.clear();
    doing.clear();
  };
  return {
    answer: answer?.of,
    plan,
    forced,
    force: setForced,
    why: plan === undefined ? 'Look at the plan first' : whyNotPlanned(plan, forced),
    planning,
    doing,
    ask: () =>
      planning.run(async () => {
        drop();
        const asked = turn.current;
        const found = await ask();
        // what it was asked for may be another by now
        if (turn.current === asked) setAnswer({ of: found });
      }),
    run: () => doing.run(() => run([...forced], answer?.of)),
    drop,
  };
}
