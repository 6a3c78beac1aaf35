import type { Finding } from './findings.ts';

/** A compose file cannot be run as an application: `field` of the application is wrong, for this reason. */
export class ComposeFault extends Error {
  readonly field: 'compose_file' | 'compose_service' | 'replicas';
  readonly reason: 'refused' | 'unknown' | 'exclusive' | 'limit';
  /** What of the file is refused, with where it is written. */
  readonly findings: readonly Finding[];

  constructor(
    field: ComposeFault['field'],
    reason: ComposeFault['reason'],
    message: string,
    findings: readonly Finding[] = [],
  ) {
    super(message);
    this.name = 'ComposeFault';
    this.field = field;
    this.reason = reason;
    this.findings = findings;
  }
}

/** The fault of a file of which something is refused. */
export function refusal(findings: readonly Finding[]): ComposeFault {
  const [first] = findings;
  const more = findings.length > 1 ? `, and ${findings.length - 1} more` : '';
  const message = `The compose file is refused: ${first === undefined ? '' : inWords(first)}${more}`;
  return new ComposeFault('compose_file', 'refused', message, findings);
}

/** A finding with its place. */
export function inWords({ line, column, message }: Finding): string {
  return `line ${line}, column ${column}: ${message}`;
}
