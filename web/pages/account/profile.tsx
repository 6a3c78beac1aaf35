import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { User } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { SecretInput, TextInput } from '../../parts/inputs.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Time } from '../../parts/time.tsx';

/** The reader's names and password. */
export function Profile(): VNode {
  const { me } = useConsole();
  const user = me.value;
  if (user === undefined) return <Skeleton label="Reading the account" />;
  return (
    <div class="cards">
      <Card title="You">
        <Facts
          of={[
            ['Address', user.email],
            ['Role', user.role],
            ['Two factors', user.two_factor_enabled ? 'asked for at each sign-in' : 'not set up'],
            ['Since', <Time at={user.created_at} />],
          ]}
        />
        <Names user={user} />
      </Card>
      {user.has_password && <Password />}
    </div>
  );
}

function Names({ user }: { readonly user: User }): VNode {
  const { login, me, messages } = useConsole();
  const act = useAct();
  const [first, setFirst] = useState(user.first_name);
  const [last, setLast] = useState(user.last_name);
  const save = async (): Promise<void> => {
    await act.run(async () => {
      me.value = await call(login, 'PUT', '/api/v1/auth/me', { body: { first_name: first, last_name: last } });
      messages.say('Your name is saved');
    });
  };
  const isSame = first === user.first_name && last === user.last_name;
  return (
    <form
      class="form"
      aria-label="Your name"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isSame) void save();
      }}
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <Field label="First name">
        {(control) => <TextInput control={control} value={first} onInput={setFirst} autocomplete="given-name" />}
      </Field>
      <Field label="Last name">
        {(control) => <TextInput control={control} value={last} onInput={setLast} autocomplete="family-name" />}
      </Field>
      <div class="form-foot">
        <Button type="submit" busy={act.busy} why={isSame ? 'Nothing is changed' : undefined}>
          Save the name
        </Button>
      </div>
    </form>
  );
}

function Password(): VNode {
  const { login, messages } = useConsole();
  const act = useAct();
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const save = async (): Promise<void> => {
    const isDone = await act.run(() =>
      call(login, 'PUT', '/api/v1/auth/me/password', { body: { current_password: current, new_password: next } }),
    );
    if (!isDone) return;
    setCurrent('');
    setNext('');
    messages.say('The password is changed; your other sessions have ended');
  };
  const faultOf = (name: string): string | undefined =>
    act.error?.details?.find(({ field }) => field === name)?.message;
  const isPlaced = faultOf('current_password') !== undefined || faultOf('new_password') !== undefined;
  return (
    <Card title="Password">
      <form
        class="form"
        aria-label="Password"
        onSubmit={(event) => {
          event.preventDefault();
          if (current !== '' && next !== '') void save();
        }}
      >
        {act.error !== undefined && !isPlaced && <ErrorBox error={act.error} />}
        <Field label="Present password" error={faultOf('current_password')}>
          {(control) => <SecretInput control={control} value={current} onInput={(text) => setCurrent(text ?? '')} />}
        </Field>
        <Field label="New password" help="A change ends your other sessions." error={faultOf('new_password')}>
          {(control) => <SecretInput control={control} value={next} onInput={(text) => setNext(text ?? '')} />}
        </Field>
        <div class="form-foot">
          <Button type="submit" busy={act.busy} why={current === '' || next === '' ? 'Fill in both' : undefined}>
            Change the password
          </Button>
        </div>
      </form>
    </Card>
  );
}
