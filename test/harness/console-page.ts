import type { Page } from 'playwright-core';
import { longTag } from '../layer-report.ts';

const wide = { width: 1280, height: 900 };

/** Signs in to the console, and waits until its list of projects is there. */
export async function signIn(page: Page, url: string, account: { email: string; password: string }): Promise<void> {
  await page.goto(`${url}/console`);
  await page.getByLabel('E-mail').fill(account.email);
  await page.getByLabel('Password').fill(account.password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'Projects', level: 1 }).waitFor();
}

/** How many pixels of a page are beyond the right edge of the window. */
export async function pixelsBeyond(page: Page): Promise<number> {
  return Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth'));
}

/** In which of their two looks the pages of a list are shown: those at even places in the first one, or the others. */
export const looks: readonly { turn: string; tags: string[] }[] = [
  { turn: 'by turns wide and light, narrow and dark', tags: [] },
  { turn: 'by turns narrow and dark, wide and light', tags: [longTag] },
];

/** Gives the page at that place of a list the look of its turn, and answers with whether it is narrow. */
export async function takeLook(page: Page, turn: string, at: number): Promise<boolean> {
  const isNarrow = (at % 2 === 1) === (turn === looks[0]?.turn);
  await page.emulateMedia({ colorScheme: isNarrow ? 'dark' : 'light', reducedMotion: 'reduce' });
  await page.setViewportSize(isNarrow ? { width: 360, height: 800 } : wide);
  return isNarrow;
}

/** Gives the page back the look that a browser begins with. */
export async function leaveLook(page: Page): Promise<void> {
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  await page.setViewportSize(wide);
}
