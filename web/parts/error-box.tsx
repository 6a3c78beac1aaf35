import type { VNode } from 'preact';
import { Button } from './button.tsx';
import { Id } from './id.tsx';
import type { Refusal } from './refusal.ts';
import { Shape } from './shape.tsx';

interface ErrorBoxProps {
  readonly error: Refusal;
  readonly onRetry?: (() => void) | undefined;
}

/** What went wrong, in the words of the server, with the id of the request to copy. */
export function ErrorBox({ error: { message, requestId, details = [] }, onRetry }: ErrorBoxProps): VNode {
  return (
    <div class="notice notice-bad" role="alert">
      <Shape of="bad" />
      <div class="notice-body">
        <p>{message}</p>
        {details.length > 0 && (
          <ul>
            {details.map(({ field, message: text }) => (
              <li key={`${field} ${text}`}>
                {field !== '' && <code>{field}</code>} {text}
              </li>
            ))}
          </ul>
        )}
        {requestId !== undefined && (
          <span class="small">
            Request <Id of={requestId} what="request id" />
          </span>
        )}
      </div>
      {onRetry !== undefined && (
        <Button isSmall onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
