import type { LogLine } from '../../agent-protocol/logs.ts';

type Level = LogLine['level'];

const lookedAt = 256;
const jsonLevel = /"(?:level|severity|lvl|log\.level)"\s*:\s*(?:"([A-Za-z]+)"|(\d{2}))/;
const word = /\b(?:(fatal|panic|crit(?:ical)?|emerg|alert|error|err)|(warn(?:ing)?)|(debug|trace|verbose))\b/i;
const capital = /\b(?:FATAL|PANIC|CRIT|CRITICAL|EMERG|ALERT|ERROR|ERR|WARN|WARNING|DEBUG|TRACE|INFO|NOTICE)\b/;

/** Guesses the level from the beginning of a line. Else it is `info`, also on stderr: many programs log only there. */
export function guessLevel(message: string): Level {
  const head = message.length > lookedAt ? message.slice(0, lookedAt) : message;
  if (head.charCodeAt(0) === 0x7b) {
    const json = jsonLevel.exec(head);
    if (json?.[1] !== undefined) return fromWord(json[1]);
    if (json?.[2] !== undefined) return fromNumber(Number(json[2]));
  }
  const found = capital.exec(head)?.[0] ?? /^\W{0,3}\w+(?=[\]:\s])/.exec(head)?.[0] ?? '';
  return found === '' ? fromField(head) : fromWord(found);
}

/** Reads a field such as `level=warn` of logfmt. */
function fromField(head: string): Level {
  const field = /\b(?:level|lvl|severity)=("?)([A-Za-z]+)\1/.exec(head);
  return field?.[2] === undefined ? 'info' : fromWord(field[2]);
}

function fromWord(text: string): Level {
  const match = word.exec(text);
  if (match?.[1] !== undefined) return 'error';
  if (match?.[2] !== undefined) return 'warn';
  return match?.[3] === undefined ? 'info' : 'debug';
}

/** Reads the numeric levels of pino and bunyan. */
function fromNumber(level: number): Level {
  if (level >= 50) return 'error';
  if (level >= 40) return 'warn';
  return level >= 30 ? 'info' : 'debug';
}
