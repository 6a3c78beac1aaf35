import type { PageDescriptor } from './page.ts';

/** Every page of the console, in the order in which an address is looked for. */
export const pages: readonly PageDescriptor[] = [];
