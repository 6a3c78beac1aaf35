import htm from 'htm';
import { h } from 'preact';
import type { VNode } from 'preact';

/** Elements as tagged templates: the browser runs them as they are written, without a build step. */
export const html = htm.bind(h) as (strings: TemplateStringsArray, ...values: unknown[]) => VNode;
