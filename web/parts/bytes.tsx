import type { VNode } from 'preact';
import { bytesText } from './units.ts';

/** A number of bytes; on hover the exact one. */
export function Bytes({ of }: { readonly of: number }): VNode {
  return (
    <span class="numeric" title={`${of.toLocaleString()} bytes`}>
      {bytesText(of)}
    </span>
  );
}
