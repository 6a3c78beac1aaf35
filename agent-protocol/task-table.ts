import { z } from 'zod';
import type { FailureCode } from './failure-codes.ts';
import type { LogLine } from './logs.ts';

/** A value in a result: results are small, and are not nested. */
type Scalar = z.ZodType<string | number | boolean | undefined>;

/** Settings of every task, which `controllers/task` decides. */
export interface TaskHead<Type extends string = string> {
  type: Type;
  /** How long one attempt may last. */
  deadline_seconds: number;
  attempt: number;
}

/** What a type of task says of itself. All that differs between types, but for their work, is here. */
export interface TaskRow {
  /** For messages, such as `build`. */
  noun: string;
  /** What an attempt is to do. */
  spec: z.ZodType<TaskHead>;
  /** What an attempt came to that succeeded. */
  result: z.ZodObject<Record<string, Scalar>>;
  /** What may be known of an attempt that failed. Every field is optional. */
  known: z.ZodObject<Record<string, Scalar>>;
  /** `fields`: the result is in fields of the report itself, as in the first release. */
  resultIn: 'result' | 'fields';
  /** Fields of the spec that hold texts by name, sealed in the store and open on the wire. */
  secrets: readonly {
    field: string;
    /** Where the object that the task belongs to holds them. */
    path: string;
    /** For messages, such as `build argument`. */
    what: string;
  }[];
  /** What an agent must have in its hello to be sent tasks of the type; `null`: every agent carries them out. */
  capability: string | null;
  /** Fields of the spec that need another capability, and what to do if the agent lacks it. */
  gated: readonly { field: string; capability: string; message: string }[];
  /** The codes of an attempt that did not end before its deadline, and of one that failed for no reason of the user. */
  codes: { timeout: FailureCode; failed: FailureCode };
  /**
   * What becomes of an attempt that the end of the agent interrupted. `again`: it runs again, as it changes nothing
   * before its end. `lost`: it is reported as lost and never repeated by itself.
   */
  ifInterrupted: 'again' | 'lost';
  /** How long one attempt may last unless its owner says otherwise. */
  deadlineSeconds: number;
  /** The stream of the log that its lines are of. */
  output: LogLine['stream'];
}

const specOf = <Type extends string, Payload extends z.ZodRawShape>(type: Type, payload: Payload) =>
  z.object({ type: z.literal(type), ...payload, deadline_seconds: z.int(), attempt: z.int().default(1) });

/**
 * The types of tasks: what runs once per attempt, to one result. Agent, gateway, store and controllers read them here.
 * `secret`: the form of secrets, which differs between store and wire.
 */
export const tasksWith = <Secret extends z.ZodType>(secret: Secret) =>
  ({
    /** Makes an image of a repository. */
    build: {
      noun: 'build',
      spec: specOf('build', {
        repository_url: z.string(),
        branch: z.string(),
        /** Full id of the commit to build; absent: the head of the branch. */
        commit: z.string().optional(),
        dockerfile_path: z.string(),
        build_context: z.string(),
        build_args: z.record(z.string(), secret),
        /** Tag that the built image gets. */
        image: z.string(),
      }),
      result: z.object({
        /** Id of the image that was built. */
        image_digest: z.string(),
        commit: z.string().optional(),
        commit_message: z.string().optional(),
      }),
      /** The commit that it had checked out. */
      known: z.object({ commit: z.string().optional(), commit_message: z.string().optional() }),
      resultIn: 'fields',
      secrets: [{ field: 'build_args', path: 'source.build_args', what: 'build argument' }],
      capability: null,
      gated: [
        {
          field: 'commit',
          capability: 'build.commit',
          message:
            'The agent of the server cannot build an earlier commit: upgrade the agent, or deploy the head of the branch',
        },
      ],
      codes: { timeout: 'build_timeout', failed: 'build_failed' },
      // A build changes nothing but its image.
      ifInterrupted: 'again',
      deadlineSeconds: 30 * 60,
      output: 'build',
    },
  }) as const satisfies Record<string, TaskRow>;
