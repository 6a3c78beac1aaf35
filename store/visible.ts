const hidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** The text with U+FFFD in place of each invisible character: controls, and characters that turn or hide text. */
export function visible(text: string): string {
  return text.replaceAll(hidden, '\ufffd');
}
