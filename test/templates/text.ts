/** A template with these lines below its head. */
export function template(...lines: string[]): string {
  return ['apiVersion: setpoint/v1', 'kind: Template', ...lines, ''].join('\n');
}

/** A template of one application with these lines, and whatever else is given. */
export function application(lines: readonly string[], ...others: string[]): string {
  const own = ['name: web', 'image_url: web:1', ...lines];
  return template('applications:', ...own.map((line, index) => `  ${index === 0 ? '- ' : '  '}${line}`), ...others);
}
