import type { Variable } from '../template/template-report.tsx';
import type { TemplateInstance } from './tab-props.ts';

type Own = TemplateInstance['variables'][number];

/** A variable of the form that changes an instance. */
export interface Changeable {
  readonly variable: Variable;
  /** The instance has a value of it, which stays unless another one is entered. */
  readonly isKept: boolean;
}

/** What is known of a variable where the text that declares it is not. */
function ofInstance({ name, type }: Own): Variable {
  return {
    name,
    type,
    display_name: null,
    description: null,
    required: false,
    secret: type === 'password' || type === 'secret',
    default: null,
    pattern: null,
    options: null,
    generated: false,
  };
}

/** Without another value it is what it was, whatever the text says of one that has none. */
function withoutDefault(variable: Variable): Variable {
  const kept: Variable = { ...variable, required: false, generated: false, default: null };
  // a box is ticked or not, and neither is what it was
  return variable.type === 'boolean' ? { ...kept, type: 'enum', options: ['true', 'false'] } : kept;
}

/**
 * The variables that a change may give a value: those that the text declares, or those that the instance has where it
 * keeps its own text. What was generated stays in any case.
 */
export function changeable(own: readonly Own[], declared: readonly Variable[] | undefined): readonly Changeable[] {
  const known = new Map(own.map((one) => [one.name, one]));
  const all = declared ?? own.map(ofInstance);
  return all
    .filter(({ name }) => known.get(name)?.generated !== true)
    .map((variable) => {
      const isKept = known.has(variable.name);
      return { variable: isKept ? withoutDefault(variable) : variable, isKept };
    });
}
