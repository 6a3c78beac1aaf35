import { z } from 'zod';
import { HealthCheck } from '../../store/kinds/application.ts';
import { HttpPath } from './fields.ts';

const [http, tcp, command, image, none] = HealthCheck.options;

const Word = z
  .string()
  .max(4096)
  .refine((text) => !text.includes('\0'), 'Must not contain a zero byte');

/** A health check as it is sent: the settings of its type, and no others. */
export const HealthCheckField = z
  .discriminatedUnion('type', [
    http.extend({ path: HttpPath }).strict(),
    tcp.strict(),
    command.extend({ command: z.array(Word).min(1).max(64) }).strict(),
    image.strict(),
    none.strict(),
  ])
  .meta({
    id: 'HealthCheck',
    description: 'How an instance shows that it is ready. Absent settings have the defaults of the agent',
  });
