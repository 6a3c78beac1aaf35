/**
 * Copies a text. The clipboard of a page that came without TLS is closed: there the text is selected in a field out of
 * sight and copied by the old command. @throws Error if the browser refuses both
 */
export async function copyText(text: string): Promise<void> {
  // the type of the browser's library says that it is always there
  const clipboard: Clipboard | undefined = isSecureContext ? navigator.clipboard : undefined;
  if (clipboard !== undefined) {
    await clipboard.writeText(text);
    return;
  }
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'sr-only';
  const holder = document.activeElement?.closest('dialog') ?? document.body;
  const before = document.activeElement;
  holder.append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  if (!isDone) throw new Error('The browser refused to copy');
}
