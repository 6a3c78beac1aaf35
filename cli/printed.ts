import { stringify } from 'yaml';

/** What is printed for programs: JSON or YAML, in which nothing of what others wrote reaches the terminal raw. */
export function printed(value: unknown, form: string): string {
  return form === 'yaml'
    ? escaped(stringify(value, { lineWidth: 0 })).trimEnd()
    : escaped(JSON.stringify(value, null, 2));
}

/** JSON writes most controls as escapes; what it and YAML let through is written so, too. */
function escaped(text: string): string {
  return text.replaceAll(
    /[\u007f-\u009f\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
