import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Page } from '../../parts/page.tsx';
import type { PageProps } from '../page.ts';

/** Shows the invite in the link of a mail, and a button to accept it. */
export function InvitePage({ params }: PageProps): VNode {
  const token = params['token'] ?? '';
  const { login, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const { data: invite, error } = useRead(
    () => call(login, 'GET', '/api/v1/invites/{token}', { path: { token } }),
    [token],
  );
  const accept = (): Promise<boolean> =>
    act.run(async () => {
      await call(login, 'POST', '/api/v1/invites/{token}/accept', { path: { token } });
      router.go(
        href(invite?.project_id === null || invite === undefined ? ['projects'] : ['projects', invite.project_id]),
      );
    });
  const failure = act.error ?? error;
  return (
    <Page title="Invite">
      {invite !== undefined && (
        <Card title={invite.project_name ?? login.tenant}>
          <p>
            You are invited to {invite.project_name ?? 'this tenant'} with the role {invite.role}.
          </p>
          <div>
            <Button tone="primary" busy={act.busy} onClick={() => void accept()}>
              Accept
            </Button>
          </div>
        </Card>
      )}
      {failure !== undefined && (
        <>
          <ErrorBox error={failure} />
          <p class="quiet">
            An invite is for one address: sign in with the one that it was mailed to. This is {login.email}.
          </p>
        </>
      )}
    </Page>
  );
}
