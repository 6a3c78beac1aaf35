/** What a restore that is being asked for goes by. */
export interface RestoreDraft {
  readonly when: { readonly backup: string } | { readonly instant: number } | undefined;
  readonly into: 'same' | 'new' | 'other';
  readonly newName: string;
  readonly otherId: string | undefined;
}

/** Why a draft cannot be sent yet; `undefined` if it can be. */
export function whyNotYet({ when, into, newName, otherId }: RestoreDraft): string | undefined {
  if (when === undefined) return 'Choose a backup or an instant first';
  if (into === 'new' && newName.trim() === '') return 'Give the new database a name first';
  if (into === 'other' && otherId === undefined) return 'Choose the other database first';
  return undefined;
}

/** What it touches once it is asked for, in the order in which it happens. */
export function touchedBy({ when, into, newName }: RestoreDraft, name: string): readonly string[] {
  const copy = 'Now: a new volume is made beside, on its server. It needs room for a second copy of the data.';
  if (into === 'new')
    return [
      `Nothing of ${name} is touched, now or later.`,
      `A database ${newName.trim() === '' ? 'of the new name' : newName.trim()} is made, with a password of its own and no port.`,
    ];
  const target = into === 'other' ? 'the other database' : name;
  const serving = `Until it was read and checked: nothing of ${target} is touched. It goes on serving.`;
  if (when !== undefined && 'instant' in when)
    return [copy, serving, 'Then it waits: you look at the copy, and only your decision switches to it.'];
  return [
    copy,
    serving,
    `Then ${target} switches by itself: it ends and starts on the new volume, and all connections end.`,
    'What was written after the backup is in the former volume alone, which stays for a week: the way back.',
  ];
}
