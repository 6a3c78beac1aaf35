import type { VNode } from 'preact';

/** A drawing of lucide as text; it says nothing that the word beside it does not say. */
export function Icon({ of, size = 16 }: { of: string; size?: number }): VNode {
  const inside = /<svg[^>]*>([^]*)<\/svg>/.exec(of)?.[1] ?? '';
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      // the text is that of the package
      dangerouslySetInnerHTML={{ __html: inside }}
    />
  );
}
