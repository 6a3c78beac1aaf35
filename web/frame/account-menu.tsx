import type { VNode } from 'preact';
import { CircleUserRound } from 'lucide-static';
import { call } from '../api.ts';
import { pages } from '../pages/pages.ts';
import { useConsole, useHref } from './context.ts';
import { Icon } from './icon.tsx';
import { Popup } from './popup.tsx';
import { pageAt } from './router.ts';
import { display, setDisplay } from './settings.ts';
import type { Display } from './settings.ts';

const themes: Readonly<Record<Display['theme'], string>> = { system: 'As the system', light: 'Light', dark: 'Dark' };

/** The reader's account, how the console is shown, and the way out. */
export function AccountMenu({ showKeys }: { showKeys: () => void }): VNode {
  const { login, me, end } = useConsole();
  const href = useHref();
  const user = me.value;
  const name = user === undefined ? '' : `${user.first_name} ${user.last_name}`.trim();
  const logOut = async (): Promise<void> => {
    await call(login, 'POST', '/api/v1/auth/logout').catch(() => undefined); // the token is forgotten here in any case
    end();
  };
  return (
    <Popup label="Account" button={<Icon of={CircleUserRound} size={18} />}>
      {(close) => (
        <div class="stack-tight">
          <p>
            <span class="strong">{name === '' ? login.email : name}</span>
            <br />
            <span class="quiet small">
              {login.email} · {user?.role ?? ''}
            </span>
          </p>
          {pageAt(pages, '/account') !== undefined && (
            <a href={href(['account'])} onClick={close}>
              Account and keys
            </a>
          )}
          <fieldset class="popup-set">
            <legend>Colours</legend>
            {Object.entries(themes).map(([theme, word]) => (
              <label class="choice" key={theme}>
                <input
                  type="radio"
                  name="theme"
                  checked={display.value.theme === theme}
                  onChange={() => setDisplay({ theme: theme as Display['theme'] })} // a key of the table
                />
                {word}
              </label>
            ))}
          </fieldset>
          <label class="choice">
            <input
              type="checkbox"
              checked={display.value.density === 'compact'}
              onChange={({ currentTarget }) => setDisplay({ density: currentTarget.checked ? 'compact' : 'normal' })}
            />
            Compact rows
          </label>
          <button
            class="link-button popup-link"
            onClick={() => {
              close();
              showKeys();
            }}
          >
            Keys
          </button>
          <button class="button" onClick={() => void logOut()}>
            Sign out
          </button>
        </div>
      )}
    </Popup>
  );
}
