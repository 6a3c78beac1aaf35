/** Formats a value for programs as JSON or YAML; text of other users cannot send control characters to the terminal. */
export async function printed(value: unknown, form: string): Promise<string> {
  if (form !== 'yaml') return escaped(JSON.stringify(value, null, 2));
  const { stringify } = await import('yaml'); // a quarter of all modules that a command would load
  return escaped(stringify(value, { lineWidth: 0 })).trimEnd();
}

/** Escapes the control characters that JSON and YAML leave as they are. */
function escaped(text: string): string {
  return text.replaceAll(
    /[\u007f-\u009f\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
