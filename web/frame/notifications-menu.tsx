import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Bell } from 'lucide-static';
import { call, messageOf, page } from '../api.ts';
import type { Notification } from '../model.ts';
import { useConsole, useHref } from './context.ts';
import { Icon } from './icon.tsx';
import { partsOfObject } from './object-links.ts';
import { paced } from './paced.ts';
import { Popup } from './popup.tsx';
import { followStream } from './stream.ts';
import { relativeTime } from '../parts/relative-time.ts';

/** Notifications that are shown. */
const shownCount = 20;
const tones = { info: 'idle', warning: 'warn', error: 'bad' } as const;

/** What the control plane reports to the reader, newest first, and how much of it is unread. */
export function NotificationsMenu(): VNode {
  const { login, messages } = useConsole();
  const href = useHref();
  const [items, setItems] = useState<readonly Notification[]>([]);
  const [unread, setUnread] = useState(0);
  const shown = unread > 99 ? '99+' : String(unread);
  useEffect(() => {
    // each notification that is marked as read sends a frame
    const read = paced(() =>
      page(login, '/api/v1/notifications', { query: { limit: shownCount } }).then(
        (found) => {
          setItems(found.items);
          setUnread(found.meta.unread ?? 0);
        },
        () => undefined, // the connection shows whether the server answers
      ),
    );
    return followStream({
      login,
      path: '/ws/notifications',
      onFrame: ({ type }) => {
        if (type === 'ready' || type === 'gap' || type === 'notification') read();
      },
    });
  }, [login]);
  const markRead = async (): Promise<void> => {
    try {
      await call(login, 'POST', '/api/v1/notifications/read', { body: { all: true } });
      setUnread(0);
      setItems((now) => now.map((one) => ({ ...one, read: true })));
    } catch (failure) {
      messages.say(messageOf(failure), 'bad');
    }
  };
  return (
    <Popup
      class="popup-wide"
      label={unread === 0 ? 'Notifications' : `Notifications, ${shown} unread`}
      button={
        <>
          <Icon of={Bell} size={18} />
          {unread > 0 && <span class="popup-count">{shown}</span>}
        </>
      }
    >
      {(close) => (
        <div class="stack-tight">
          <div class="row-apart">
            <h2>Notifications</h2>
            {unread > 0 && (
              <button class="link-button" onClick={() => void markRead()}>
                Mark all as read
              </button>
            )}
          </div>
          {items.length === 0 && (
            <p class="quiet">Nothing needs you. Failed deployments and lost servers are told here.</p>
          )}
          <ul class="notifications">
            {items.map((one) => (
              <li key={one.id} class={`notice notice-${tones[one.severity]}`}>
                <Text of={one} close={close} />
              </li>
            ))}
          </ul>
          <a href={href(['notifications'])} onClick={close}>
            All notifications
          </a>
        </div>
      )}
    </Popup>
  );
}

function Text({ of, close }: { of: Notification; close: () => void }): VNode {
  const href = useHref();
  const about = of.resource === null ? undefined : partsOfObject(of.resource);
  return (
    <div class="grow">
      <p class={of.read ? '' : 'strong'}>
        {about === undefined ? (
          of.title
        ) : (
          <a href={href(about)} onClick={close}>
            {of.title}
          </a>
        )}
        {!of.read && <span class="sr-only"> (unread)</span>}
      </p>
      <p class="small">{of.message}</p>
      <p class="small quiet">{relativeTime(of.created_at, Date.now())}</p>
    </div>
  );
}
