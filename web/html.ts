import htm from 'htm';
import { h } from 'preact';
import type { VNode } from 'preact';

/** Elements as tagged templates: no build step between what is written and what runs. */
export const html = htm.bind(h) as (strings: TemplateStringsArray, ...values: unknown[]) => VNode;
