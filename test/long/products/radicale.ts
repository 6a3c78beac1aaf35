import { expect } from 'vitest';
import type { Product } from './product.ts';

const event = [
  'BEGIN:VCALENDAR',
  'VERSION:2.0',
  'PRODID:-//Example//Calendar//EN',
  'BEGIN:VEVENT',
  'UID:kept',
  'DTSTAMP:20260101T090000Z',
  'DTSTART:20260102T090000Z',
  'SUMMARY:Kept',
  'END:VEVENT',
  'END:VCALENDAR',
  '',
].join('\r\n');

/** Its calendars are in a volume. The upgrade takes its pages away, by a variable. */
export const radicale: Product = {
  name: 'radicale',
  image: {
    suite: 'trixie',
    packages: ['radicale'],
    lines: [
      'RUN mkdir -p /var/lib/radicale && : >/etc/radicale/config',
      'VOLUME /var/lib/radicale',
      'EXPOSE 5232',
      'ENTRYPOINT ["radicale"]',
      'CMD ["--hosts", "0.0.0.0:5232,[::]:5232"]',
    ],
  },
  variables: () => ({ DOMAIN: 'calendars.example.test', WEB_USERNAME: 'keeper' }),
  secrets: ['WEB_PASSWORD'],
  upgrade: { variables: { PAGES: 'none' }, fields: ['start_command'] },
  async setUp(site) {
    const made = await site.ask('/keeper/days/', { method: 'MKCALENDAR' });
    expect(made.status, made.body).toBe(201);
    const calendar = { 'content-type': 'text/calendar' };
    const written = await site.ask('/keeper/days/kept.ics', { method: 'PUT', headers: calendar, body: event });
    expect(written.status, written.body).toBe(201);
  },
  async look(site, isUpgraded) {
    const page = await site.ask('/.web/');
    expect(page.body.includes('<title>Radicale Web Interface</title>')).toBe(!isUpgraded);
    const found = await site.ask('/keeper/days/', { method: 'PROPFIND', headers: { depth: '1' } });
    expect(found.status).toBe(207);
    expect(found.body).toContain('/keeper/days/kept.ics');
    expect((await site.ask('/keeper/days/kept.ics')).body).toContain('SUMMARY:Kept');
  },
};
