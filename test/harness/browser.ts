import { chromium } from 'playwright-core';
import type { Browser, BrowserContext, Page } from 'playwright-core';

const program = '/usr/bin/chromium';
/** Without these it looks for hosts of its maker at every start. */
const quiet = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A page of a real browser, and what it complained about. */
export interface TestPage extends AsyncDisposable {
  page: Page;
  /** Errors of scripts, and what the page's policy forbade. */
  complaints: string[];
}

/** Opens an empty page in a browser of its own. */
export async function openPage(): Promise<TestPage> {
  const browser: Browser = await chromium.launch({ executablePath: program, args: quiet });
  const context: BrowserContext = await browser.newContext({ viewport: { width: 1200, height: 1000 } });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // containers come and go on the same machine: to a browser its network has changed, and it asks again
    if (message.type() === 'error' && !message.text().includes('ERR_NETWORK_CHANGED'))
      complaints.push(`${message.text()} (${message.location().url})`);
  });
  return { page, complaints, [Symbol.asyncDispose]: () => browser.close() };
}
