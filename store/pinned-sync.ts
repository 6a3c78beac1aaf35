import { maxMessageChars } from './kinds/sync.ts';

/** What a sync tells that is pinned to a commit, in words. */
export function pinnedTo(commit: string): string {
  return `It is pinned to ${commit.slice(0, 12)}: later commits are not applied until it is released (pinned_commit: null)`;
}

/** What a sync waits for, or why it failed, and that it is pinned: a user who reads the one has to know the other. */
export function withPin(message: string, pinned: string | undefined): string {
  if (pinned === undefined) return message;
  const words = pinnedTo(pinned);
  return message === '' ? words : `${message.slice(0, maxMessageChars - words.length - 2)}. ${words}`;
}
