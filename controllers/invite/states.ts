import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';

/** The state of the mail of an invite. */
export type Delivery = 'Sending' | 'NotSent' | 'Sent' | 'OnlyLogged' | 'Refused' | 'GivenUp';

const messages: Readonly<Record<Delivery, string>> = {
  Sending: 'The mail is being sent',
  NotSent: 'The mail server did not take the mail: the control plane tries again, and its log says why',
  Sent: 'The mail server took the mail',
  OnlyLogged:
    'No mail server is set: take the link from the log of the control plane and send it to the user, or set --smtp-url',
  Refused: 'The mail server refused the address: cancel the invite, and invite the user by another one',
  GivenUp:
    'The mail server did not take the mail in many attempts: check the mail server, then cancel the invite and make a new one',
};

/** The last recorded state of the mail. */
export function deliveryOf({ observed }: ReadonlyResource<'invite'>): Delivery | undefined {
  const condition = observed?.conditions.find((one) => one.type === 'Delivered');
  return condition !== undefined && Object.hasOwn(messages, condition.reason)
    ? (condition.reason as Delivery)
    : undefined; // a key of the messages
}

/** Whether nothing more is done about the mail. */
export function isOver(delivery: Delivery | undefined): boolean {
  return delivery === 'Sent' || delivery === 'OnlyLogged' || delivery === 'Refused' || delivery === 'GivenUp';
}

export function conditionsOf(delivery: Delivery | undefined): ConditionInput[] {
  if (delivery === undefined)
    return [
      { type: 'Ready', status: 'false', reason: 'Over', message: 'The invite is over: its mail is not sent any more' },
    ];
  const state = {
    status: delivery === 'Sent' ? 'true' : 'false',
    reason: delivery,
    message: messages[delivery],
  } as const;
  return [
    { type: 'Ready', ...state },
    { type: 'Delivered', ...state },
  ];
}
