interface Answer {
  readonly headers: Readonly<Record<string, string>>;
  /** `null` where it is no text. */
  readonly body: string | null;
  readonly truncated: boolean;
}

/** The body of an answer as a person reads it: JSON that is whole is set out. `undefined`: it is no text. */
export function answerText({ headers, body, truncated }: Answer): string | undefined {
  if (body === null) return undefined;
  const type = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? '';
  if (truncated || !/^application\/(?:[\w.+-]+\+)?json\b/i.test(type)) return body;
  try {
    return JSON.stringify(JSON.parse(body), undefined, 2);
  } catch {
    return body;
  }
}

/** How many bytes a text in base64 stands for. */
export function byteCount(base64: string): number {
  return Math.floor((base64.replace(/=+$/, '').length * 3) / 4);
}
