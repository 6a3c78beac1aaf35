const usualBytes = 2048;

/** Text that a program wrote, as much as is kept of it. */
export interface Words {
  add(data: Uint8Array): void;
  readonly text: string;
}

/** Keeps the end of what a program writes. */
export function lastWords(mostBytes: number = usualBytes): Words {
  let kept: Buffer = Buffer.alloc(0);
  return {
    add(data) {
      kept = Buffer.concat([kept, data.subarray(-mostBytes)]).subarray(-mostBytes);
    },
    get text() {
      return kept.toString();
    },
  };
}

/** Keeps the beginning of what a program writes. */
export function firstWords(mostBytes: number): Words & { readonly hasMore: boolean } {
  const parts: Buffer[] = [];
  let bytes = 0;
  let hasMore = false;
  return {
    add(data) {
      const part = Buffer.from(data.subarray(0, mostBytes - bytes));
      hasMore ||= part.length < data.length;
      bytes += part.length;
      if (part.length > 0) parts.push(part);
    },
    get text() {
      return Buffer.concat(parts).toString();
    },
    get hasMore() {
      return hasMore;
    },
  };
}
