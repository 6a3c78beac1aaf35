import type { CDPSession, Page } from 'playwright-core';
import { openPage } from '../test/harness/browser.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { createApplications, owner, startControlPlane } from './control-plane.ts';

/** A slow laptop on a line of 10 Mbit/s. */
const line = { offline: false, latency: 40, downloadThroughput: 1_250_000, uploadThroughput: 1_250_000 };
const slowdown = 4;
const applications = 300;

/** Notes when the page first has what the selector names, is painted, and takes input again. */
const noteWhenUsable = (selector: string): string => `{
  const look = new MutationObserver(() => {
    if (document.querySelector(${JSON.stringify(selector)}) === null) return;
    look.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.usableAtForBench = performance.now(); }));
  });
  look.observe(document, { childList: true, subtree: true });
}`;

interface Load {
  /** From the beginning of the navigation until the page can be used. */
  ms: number;
  /** Bytes that the network carried until then, with heads of answers. */
  kilobytes: number;
  requests: number;
}

/** Loads a page with an empty cache, and measures until what the selector names can be used. */
async function load(page: Page, session: CDPSession, address: string, selector: string): Promise<Load> {
  await page.goto('about:blank');
  let [bytes, requests] = [0, 0];
  const isOwn = new Set<string>();
  const begun = ({ requestId, request }: { requestId: string; request: { url: string } }): void => {
    if (request.url.startsWith('http')) isOwn.add(requestId);
  };
  const ended = ({ requestId, encodedDataLength }: { requestId: string; encodedDataLength: number }): void => {
    if (!isOwn.has(requestId)) return;
    bytes += encodedDataLength;
    requests += 1;
  };
  session.on('Network.requestWillBeSent', begun);
  session.on('Network.loadingFinished', ended);
  const { identifier } = await session.send('Page.addScriptToEvaluateOnNewDocument', {
    source: noteWhenUsable(selector),
  });
  try {
    await page.goto(address);
    const ms = await until('the page can be used', async () => {
      const at = Number(await page.evaluate('window.usableAtForBench ?? 0'));
      return at > 0 && at;
    });
    return { ms, kilobytes: bytes / 1000, requests };
  } finally {
    await session.send('Page.removeScriptToEvaluateOnNewDocument', { identifier });
    session.off('Network.requestWillBeSent', begun);
    session.off('Network.loadingFinished', ended);
  }
}

export const bench: Bench = {
  id: 'console',
  async run({ compareAll }) {
    await using plane = await startControlPlane('file');
    await createApplications(plane, applications);
    await using browser = await openPage();
    const { page } = browser;
    const session = await page.context().newCDPSession(page);
    await session.send('Network.enable');
    await session.send('Page.enable');
    await session.send('Network.setCacheDisabled', { cacheDisabled: true });
    await session.send('Network.emulateNetworkConditions', line);
    await session.send('Emulation.setCPUThrottlingRate', { rate: slowdown });
    // the server makes the files of both pages at the first request for each
    for (const path of ['/console', '/docs']) await (await fetch(`${plane.url}${path}`)).text();
    const measured = async (path: string, selector: string): Promise<Load> =>
      load(page, session, `${plane.url}${path}`, selector);
    const slowly = 'processor ÷ 4, 10 Mbit/s, 40 ms';

    await compareAll({
      figures: {
        kilobytes: { what: 'first load of the console, compressed', unit: 'KB', goal: { atMost: 170, of: 'ours' } },
        requests: { what: 'the same, requests', unit: 'requests', goal: { atMost: 6, of: 'ours' } },
        ms: { what: `the same until one can sign in; ${slowly}`, unit: 'ms', goal: { atMost: 1000, of: 'ours' } },
      },
      ours: async () => ({ ...(await measured('/console', 'form input')) }),
    });

    await page.goto(`${plane.url}/console`);
    await page.getByLabel('E-mail').fill(owner.email);
    await page.getByLabel('Password').fill(owner.password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('heading', { name: 'Projects', level: 1 }).waitFor();
    await compareAll({
      figures: {
        ms: {
          what: `load of the page of a project of ${applications} applications; ${slowly}`,
          unit: 'ms',
          goal: { atMost: 1200, of: 'ours' },
        },
        kilobytes: { what: 'the same, bytes with those of the interface', unit: 'KB' },
      },
      ours: async () => ({ ...(await measured(`/console#/default/projects/${plane.project.id}`, '.workload')) }),
    });

    await compareAll({
      figures: {
        ms: { what: `load of the reference of the API, /docs; ${slowly}`, unit: 'ms' },
        kilobytes: { what: 'the same, compressed', unit: 'KB' },
      },
      ours: async () => ({ ...(await measured('/docs', '.opblock-tag')) }),
    });
  },
};
