import { stringify } from 'yaml';

/** Formats a value for programs as JSON or YAML; text of other users cannot send control characters to the terminal. */
export function printed(value: unknown, form: string): string {
  return form === 'yaml'
    ? escaped(stringify(value, { lineWidth: 0 })).trimEnd()
    : escaped(JSON.stringify(value, null, 2));
}

/** Escapes the control characters that JSON and YAML leave as they are. */
function escaped(text: string): string {
  return text.replaceAll(
    /[\u007f-\u009f\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
