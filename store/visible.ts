const hidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** The text with a mark in the place of each character that is not seen: controls, and what turns or hides text. */
export function visible(text: string): string {
  return text.replaceAll(hidden, '\ufffd');
}
