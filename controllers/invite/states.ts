import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';

/** The state of the mail of an invite. */
export type Delivery = 'Sending' | 'NotSent' | 'Sent' | 'OnlyLogged' | 'Refused' | 'GivenUp';

const messages: Readonly<Record<Delivery, string>> = {
  Sending: 'The mail is being sent',
  NotSent: 'The mail could not be handed over; it is tried again',
  Sent: 'The mail was handed over',
  OnlyLogged: 'No mail server is set: the mail with its link is in the log of the server, to be passed on by hand',
  Refused: 'The mail server refused the mail: cancel the invite, and invite anew with an address that takes mail',
  GivenUp:
    'The mail could not be handed over in many attempts: check the mail server, cancel the invite and invite anew',
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
    return [{ type: 'Ready', status: 'false', reason: 'Over', message: 'Nobody waits for the mail any more' }];
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
