import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { encode } from 'uqr';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Command } from '../../parts/command.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { SecretInput, TextInput } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { StatusWord } from '../../parts/status.tsx';

interface Begun {
  readonly secret: string;
  readonly uri: string;
}

/** Whether a sign-in asks for a code besides the password, and how that is set up. */
export function TwoFactor(): VNode {
  const { login } = useConsole();
  const status = useRead(() => call(login, 'GET', '/api/v1/auth/me/two-factor'), []);
  const [codes, setCodes] = useState<readonly string[]>();
  if (status.error !== undefined) return <ErrorBox error={status.error} onRetry={status.again} />;
  if (status.data === undefined) return <Skeleton label="Reading the second factor" />;
  const { enabled, recovery_codes_left: left } = status.data;
  const done = (next: readonly string[] | undefined): void => {
    setCodes(next);
    status.again();
  };
  return (
    <div class="stack">
      {codes !== undefined && <RecoveryCodes codes={codes} onDone={() => setCodes(undefined)} />}
      <Card title="Two factors">
        <Facts
          of={[
            [
              'State',
              <StatusWord
                look={enabled ? { word: 'Asked for', shape: 'good' } : { word: 'Not set up', shape: 'idle' }}
              />,
            ],
            ['Recovery codes left', enabled ? String(left) : undefined],
          ]}
        />
        {enabled && left <= 2 && (
          <Notice shape="warn">
            <p>Few recovery codes are left: make new ones before you need them.</p>
          </Notice>
        )}
        {enabled ? <Enabled onDone={done} /> : <SetUp onDone={done} />}
      </Card>
    </div>
  );
}

function RecoveryCodes({ codes, onDone }: { readonly codes: readonly string[]; readonly onDone: () => void }): VNode {
  return (
    <Card title="Recovery codes">
      <p>
        Each signs in once in place of a code, when the device is lost. They are shown only now: keep them apart from
        it.
      </p>
      <Command text={codes.join('\n')} label="Copy recovery codes" />
      <div class="actions">
        <Button tone="primary" onClick={onDone}>
          I have stored them
        </Button>
      </div>
    </Card>
  );
}

interface StepProps {
  readonly onDone: (codes: readonly string[] | undefined) => void;
}

function SetUp({ onDone }: StepProps): VNode {
  const { login, me } = useConsole();
  const act = useAct();
  const [proof, setProof] = useState('');
  const [begun, setBegun] = useState<Begun>();
  const [code, setCode] = useState('');
  const hasPassword = me.value?.has_password !== false;
  const begin = async (): Promise<void> => {
    await act.run(async () => {
      const body = hasPassword ? { password: proof } : { code: proof };
      setBegun(await call(login, 'POST', '/api/v1/auth/me/two-factor', { body }));
    });
  };
  const confirm = async (): Promise<void> => {
    await act.run(async () => {
      const { recovery_codes: codes } = await call(login, 'POST', '/api/v1/auth/me/two-factor/confirm', {
        body: { totp: code.replaceAll(/\s/g, '') },
      });
      if (me.value !== undefined) me.value = { ...me.value, two_factor_enabled: true };
      onDone(codes);
    });
  };
  if (begun === undefined)
    return (
      <form
        class="form"
        aria-label="Set up two factors"
        onSubmit={(event) => {
          event.preventDefault();
          if (proof !== '') void begin();
        }}
      >
        <p class="quiet">An application on another device then gives a code for each sign-in.</p>
        {act.error !== undefined && <ErrorBox error={act.error} />}
        <Field label={hasPassword ? 'Your password' : 'A code from your mail'}>
          {(control) =>
            hasPassword ? (
              <SecretInput control={control} value={proof} onInput={(text) => setProof(text ?? '')} />
            ) : (
              <TextInput control={control} value={proof} onInput={setProof} inputMode="numeric" />
            )
          }
        </Field>
        <div class="form-foot">
          <Button
            type="submit"
            tone="primary"
            busy={act.busy}
            why={proof === '' ? 'Fill in the field first' : undefined}
          >
            Set up
          </Button>
        </div>
      </form>
    );
  return (
    <form
      class="form"
      aria-label="Confirm two factors"
      onSubmit={(event) => {
        event.preventDefault();
        if (code !== '') void confirm();
      }}
    >
      <p>1. Take up this picture with an authenticator application.</p>
      <QrPicture text={begun.uri} />
      <details class="details">
        <summary>Enter the secret by hand</summary>
        <Command text={begun.secret} label="Copy secret" />
      </details>
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <Field
        label="2. The code that it shows"
        help="A first code proves that both go alike. It ends your other sessions."
      >
        {(control) => (
          <TextInput
            control={control}
            value={code}
            onInput={setCode}
            inputMode="numeric"
            autocomplete="one-time-code"
          />
        )}
      </Field>
      <div class="form-foot">
        <Button type="submit" tone="primary" busy={act.busy} why={code === '' ? 'Enter the code first' : undefined}>
          Enable
        </Button>
      </div>
    </form>
  );
}

const quietZone = 4;

/** A text as a picture that a camera reads: black on white in both schemes, as readers expect it. */
function QrPicture({ text }: { readonly text: string }): VNode {
  const { data, size } = encode(text, { border: quietZone });
  const path = data.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : ''))).join('');
  return (
    <svg
      class="qr"
      viewBox={`0 0 ${size} ${size}`}
      width="220"
      height="220"
      role="img"
      aria-label="The secret as a picture"
    >
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" shape-rendering="crispEdges" />
    </svg>
  );
}

function Enabled({ onDone }: StepProps): VNode {
  const { login, me } = useConsole();
  const act = useAct();
  const [code, setCode] = useState('');
  const [isEnding, setEnding] = useState(false);
  const totp = code.replaceAll(/\s/g, '');
  const renew = async (): Promise<void> => {
    await act.run(async () => {
      const { recovery_codes: codes } = await call(login, 'POST', '/api/v1/auth/me/two-factor/recovery-codes', {
        body: { totp },
      });
      setCode('');
      onDone(codes);
    });
  };
  const end = async (): Promise<void> => {
    const isDone = await act.run(() => call(login, 'DELETE', '/api/v1/auth/me/two-factor', { body: { totp } }));
    if (!isDone) return;
    if (me.value !== undefined) me.value = { ...me.value, two_factor_enabled: false };
    onDone(undefined);
  };
  const why = totp === '' ? 'Enter a code first' : undefined;
  return (
    <form
      class="form"
      aria-label="Change two factors"
      onSubmit={(event) => {
        event.preventDefault();
        if (why === undefined) void renew();
      }}
    >
      {act.error !== undefined && !isEnding && <ErrorBox error={act.error} />}
      <Field label="A code of the application, or a recovery code">
        {(control) => <TextInput control={control} value={code} onInput={setCode} autocomplete="one-time-code" />}
      </Field>
      <div class="form-foot">
        <Button type="submit" busy={act.busy} why={why}>
          Make new recovery codes
        </Button>
        <Button why={why} onClick={() => setEnding(true)}>
          Disable…
        </Button>
      </div>
      {isEnding && (
        <Confirm
          title="Disable two factors"
          verb="Disable"
          goes={['The secret of the application', 'All recovery codes', 'Your other sessions']}
          stays={['Your password']}
          busy={act.busy}
          error={act.error}
          onConfirm={() => void end()}
          onClose={() => setEnding(false)}
        />
      )}
    </form>
  );
}
