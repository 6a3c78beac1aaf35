import type { Page } from 'playwright-core';

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
