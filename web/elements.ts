import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from './html.ts';
import type { Line } from './log-stream.ts';
import type { Application, Condition, Deployment, Instance, ObjectEvent, Project, Server } from './model.ts';

/** Every status that the console shows. */
type AnyStatus =
  | Project['status']
  | Application['status']
  | Deployment['status']
  | Instance['status']
  | Server['status' | 'agent_status'];

const tones: Readonly<Record<AnyStatus, 'good' | 'busy' | 'bad' | ''>> = {
  running: 'good',
  active: 'good',
  succeeded: 'good',
  connected: 'good',
  deploying: 'busy',
  building: 'busy',
  queued: 'busy',
  provisioning: 'busy',
  deleting: 'busy',
  pending: 'busy',
  preparing: 'busy',
  starting: 'busy',
  stopping: 'busy',
  failed: 'bad',
  error: 'bad',
  offline: 'bad',
  disconnected: 'bad',
  lost: 'bad',
  stopped: '',
  cancelled: '',
  superseded: '',
  unknown: '',
};

export function Status({ value }: { value: AnyStatus }): VNode {
  return html`<span class=${`status ${tones[value]}`}>${value}</span>`;
}

/** The text in a field of a form. */
export function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === 'string' ? value : '';
}

/** Sets the title of the tab while a page is shown. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Setpoint`;
  }, [title]);
}

/** The time since an instant; it is updated every 5 s. */
export function Ago({ at }: { at: string }): VNode {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), 5_000);
    return () => clearInterval(timer);
  }, []);
  return html`<time class="quiet" datetime=${at} title=${new Date(at).toLocaleString()}>${ago(at)}</time>`;
}

/** The time since an instant, in one unit. */
function ago(timestamp: string): string {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(timestamp)) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export function Conditions({ of }: { of: readonly Condition[] }): VNode {
  if (of.length === 0) return html`<p class="quiet">No controller has looked at it yet.</p>`;
  return html`<table aria-label="Conditions">
    <thead>
      <tr>
        <th>Condition</th>
        <th>Status</th>
        <th>Reason</th>
        <th>Since</th>
      </tr>
    </thead>
    <tbody>
      ${of.map(
        (one) =>
          html`<tr key=${one.type}>
            <td>${one.type}</td>
            <td>${one.status}</td>
            <td class="long">
              ${one.reason}${one.message !== '' && html`<div class="quiet small">${one.message}</div>`}
            </td>
            <td><${Ago} at=${one.last_transition_at} /></td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

export function Events({ of }: { of: readonly ObjectEvent[] }): VNode {
  if (of.length === 0) return html`<p class="quiet">Nothing has happened yet.</p>`;
  return html`<table aria-label="Events">
    <thead>
      <tr>
        <th>Event</th>
        <th>Last</th>
      </tr>
    </thead>
    <tbody>
      ${of.map(
        (one) =>
          html`<tr key=${`${one.reason} ${one.last_at}`}>
            <td class="long">
              <span class=${one.type === 'warning' ? 'error' : ''}
                >${one.reason}${one.count > 1 && ` ×${one.count}`}</span
              >
              <div class="quiet small">${one.message}</div>
            </td>
            <td><${Ago} at=${one.last_at} /></td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** A log; it scrolls with new lines while the user is at its end. */
export function Log({ lines, label, empty }: { lines: readonly Line[]; label: string; empty: string }): VNode {
  const box = useRef<HTMLPreElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    const element = box.current;
    if (element !== null && follows.current) element.scrollTop = element.scrollHeight;
  }, [lines]);
  const onScroll = (): void => {
    const element = box.current;
    if (element !== null) follows.current = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
  };
  return html`<pre class="log" role="log" aria-label=${label} tabindex="0" ref=${box} onScroll=${onScroll}>
${lines.length === 0 ? html`<span class="quiet">${empty}</span>` : lines.map((line) => html`<div key=${line.key} class=${line.stream}>${plain(line.message)}</div>`)}</pre>`;
}

/** Removes a terminal's colours. */
function plain(message: string): string {
  return message.replaceAll(/\p{Cc}\[[0-9;]*m/gu, '');
}
