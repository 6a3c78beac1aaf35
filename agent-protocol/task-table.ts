import { z } from 'zod';
import type { FailureCode } from './failure-codes.ts';
import { GenerateSettings } from './generated-dockerfile.ts';
import type { LogLine } from './logs.ts';
import { Limits } from './workload.ts';

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
    /** Field of the spec with the id of the application that holds them instead. */
    application?: string;
    /** Field of the spec with what references in the texts stand for, see `store/references.ts`. */
    references?: string;
  }[];
  /** Fields of the spec that hold the id of a git credential in the store, and the opened credential on the wire. */
  gitAccess?: readonly string[];
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

/** Most missed instants that one call records. */
export const mostMissed = 20;

const specOf = <Type extends string, Payload extends z.ZodRawShape>(type: Type, payload: Payload) =>
  z.object({ type: z.literal(type), ...payload, deadline_seconds: z.int(), attempt: z.int().default(1) });

/**
 * The types of tasks: what runs once per attempt, to one result. Agent, gateway, store and controllers read them here.
 * `secret` and `gitAccess`: the forms of secrets and of git credentials, which differ between store and wire.
 */
export const tasksWith = <Secret extends z.ZodType, GitAccess extends z.ZodType>(
  secret: Secret,
  gitAccess: GitAccess,
) =>
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
        /** The Dockerfile itself, in place of one in the repository. */
        dockerfile_text: z.string().optional(),
        /** The files themselves by path, in place of a repository: that and the branch are empty. */
        files: z.record(z.string(), z.string()).optional(),
        /** The stage of the Dockerfile that becomes the image; absent: its last one. */
        target: z.string().optional(),
        /** Present where the path of the Dockerfile is `generatedPath`. */
        generate: GenerateSettings.optional(),
        build_args: z.record(z.string(), secret),
        /** What steps of the Dockerfile may mount, by id; absent: nothing. */
        build_secrets: z.record(z.string(), secret).optional(),
        /** What the repository is read with: the id of an object in the store, the opened credential on the wire. */
        git_credential: gitAccess.optional(),
        /** Fetch its submodules as well. Absent: they are left out. */
        submodules: z.boolean().optional(),
        /** Tag that the built image gets. */
        image: z.string(),
      }),
      result: z.object({
        /** Id of the image that was built. */
        image_digest: z.string(),
        commit: z.string().optional(),
        commit_message: z.string().optional(),
        /** The Dockerfile that was generated for it. */
        dockerfile: z.string().optional(),
      }),
      /** The commit that it had checked out, and the Dockerfile that was generated for it. */
      known: z.object({
        commit: z.string().optional(),
        commit_message: z.string().optional(),
        dockerfile: z.string().optional(),
      }),
      resultIn: 'fields',
      secrets: [
        { field: 'build_args', path: 'source.build_args', what: 'build argument' },
        { field: 'build_secrets', path: 'source.build_secrets', what: 'build secret' },
      ],
      gitAccess: ['git_credential'],
      capability: null,
      gated: [
        {
          field: 'commit',
          capability: 'build.commit',
          message:
            'The agent of the server cannot build an earlier commit: upgrade the agent, or deploy the head of the branch',
        },
        {
          field: 'build_secrets',
          capability: 'build.secrets',
          message: 'The agent of the server cannot give secrets to builds: upgrade the agent',
        },
        {
          field: 'git_credential',
          capability: 'git.credentials',
          message: 'The agent of the server cannot read repositories with a git credential: upgrade the agent',
        },
        {
          field: 'generate',
          capability: 'build.generate',
          message:
            'The agent of the server cannot generate a Dockerfile: upgrade the agent, or add a Dockerfile to the repository and name it in dockerfile_path',
        },
        {
          field: 'submodules',
          capability: 'build.submodules',
          message: 'The agent of the server cannot fetch submodules: upgrade the agent',
        },
        {
          field: 'dockerfile_text',
          capability: 'build.compose',
          message: 'The agent of the server cannot build the dockerfile_inline of a compose file: upgrade the agent',
        },
        {
          field: 'files',
          capability: 'functions',
          message: 'The agent of the server cannot build functions: upgrade the agent',
        },
        {
          field: 'target',
          capability: 'build.compose',
          message: 'The agent of the server cannot build one stage of a Dockerfile: upgrade the agent',
        },
      ],
      codes: { timeout: 'build_timeout', failed: 'build_failed' },
      // A build changes nothing but its image.
      ifInterrupted: 'again',
      deadlineSeconds: 30 * 60,
      output: 'build',
    },
    /** Runs a command once, in a container of the image and the configuration of a deployment. */
    run: {
      noun: 'command',
      spec: specOf('run', {
        /** The application whose deployment it is of. */
        application_id: z.string(),
        command: z.array(z.string()).min(1),
        image: z.string(),
        image_digest: z.string().optional(),
        env: z.record(z.string(), secret),
        /** What references in the variables stand for; absent: the values are used as they are. */
        references: z
          .record(
            z.string(),
            z.union([z.string(), z.object({ before: z.string(), secret, after: z.string(), isInUrl: z.boolean() })]),
          )
          .optional(),
        network: z.string(),
        mounts: z.array(z.object({ volume: z.string(), path: z.string(), read_only: z.boolean() })),
        limits: Limits.pick({ memory_bytes: true, nano_cpus: true }),
      }),
      /** The command ended by itself, with any exit code. */
      result: z.object({ exit_code: z.int() }),
      known: z.object({ exit_code: z.int().optional() }),
      resultIn: 'result',
      secrets: [
        {
          field: 'env',
          path: 'config.env',
          what: 'environment variable',
          application: 'application_id',
          references: 'references',
        },
      ],
      capability: 'tasks.run',
      gated: [],
      codes: { timeout: 'run_timeout', failed: 'run_failed' },
      // It may have had an effect.
      ifInterrupted: 'lost',
      deadlineSeconds: 60 * 60,
      output: 'system',
    },
    /** Calls a function once, as its schedule asks, in the way of every other call of it. */
    call: {
      noun: 'call',
      spec: specOf('call', {
        function_id: z.string(),
        /** The instant that the call is for. */
        scheduled_at: z.string(),
        /** Earlier instants for which it was not called, which are recorded as missed. */
        missed: z.array(z.string()).max(mostMissed).default([]),
      }),
      result: z.object({
        execution_id: z.string(),
        /** What became of the execution: `succeeded`, `failed` or `timed_out`. */
        status: z.string(),
      }),
      known: z.object({}),
      resultIn: 'result',
      secrets: [],
      capability: 'functions',
      gated: [],
      codes: { timeout: 'run_timeout', failed: 'run_failed' },
      // It may have had an effect.
      ifInterrupted: 'lost',
      deadlineSeconds: 20 * 60,
      output: 'system',
    },
    /** Sends what a database or a volume holds to the bucket of a destination, by addresses that the control plane signs. */
    backup: {
      noun: 'backup',
      spec: specOf('backup', {
        /** Of a database: the type of the engine, by the words of `databases/engines.ts`. */
        engine: z.string().optional(),
        /** Of a database: the assignment in whose container it serves. */
        instance: z.string().optional(),
        /** Name at the engine of the volume whose files are archived, in place of a dump. */
        volume: z.string().optional(),
        /** `physical`: the copy of all files, from which a recovery begins; absent: the dump of the engine's program. */
        method: z.enum(['physical']).optional(),
        /** Bytes of all parts but the last one. */
        part_bytes: z.int().min(1),
        /** Certificates in PEM of the authority of the bucket; absent: those that the server trusts. */
        ca: z.string().optional(),
      }),
      result: z.object({
        /** Bytes of the object, and of the dump in it before it was compressed. */
        size_bytes: z.int(),
        dump_bytes: z.int(),
        /** Of the object, in hexadecimal. */
        checksum_sha256: z.string(),
        /** How S3 names an object that was sent in these parts; absent: its service has names of its own. */
        etag: z.string().optional(),
        parts: z.int(),
        /** Of a volume: files that changed while they were read, sockets that were left out, and some of both in words. */
        changed_files: z.int().optional(),
        left_out: z.int().optional(),
        notes: z.string().max(4000).optional(),
        /** Of a physical one: the first and the last segment of the log that it needs, and an instant in the last one. */
        first_segment: z.string().optional(),
        last_segment: z.string().optional(),
        stopped_at: z.string().optional(),
      }),
      known: z.object({}),
      resultIn: 'result',
      secrets: [],
      capability: 'tasks.backup',
      gated: [
        {
          field: 'volume',
          capability: 'tasks.volumes',
          message: 'The agent of the server cannot back up volumes: upgrade the agent',
        },
        {
          field: 'method',
          capability: 'archive',
          message: 'The agent of the server makes no base backups: upgrade the agent',
        },
      ],
      codes: { timeout: 'backup_timeout', failed: 'backup_failed' },
      // Nothing is made of its parts before they are all there.
      ifInterrupted: 'again',
      deadlineSeconds: 24 * 60 * 60,
      output: 'system',
    },
    /** Reads a backup into an empty volume: through the instance that mounts it, or, before one does, as files. */
    restore: {
      noun: 'restore',
      spec: specOf('restore', {
        /** Of a database: the type of the engine, by the words of `databases/engines.ts`. */
        engine: z.string().optional(),
        /** The object is an archive of files, which are put into the volume. */
        format: z.literal('tar').optional(),
        /** The assignment in whose container an empty database serves; absent: files are put into the volume. */
        instance: z.string().optional(),
        /** Name of the volume at the engine. */
        volume: z.string(),
        /** The object, as its backup tells. */
        size_bytes: z.int(),
        dump_bytes: z.int(),
        checksum_sha256: z.string(),
        /** The object is the copy of all files; these segments of the log of writes are put beside it. */
        log: z
          .object({
            version: z.string(),
            first_segment: z.string(),
            last_segment: z.string(),
            system_identifier: z.string().optional(),
          })
          .optional(),
        /**
         * A dump of a user, in place of an object. The bytes above are 0 then, and the checksum is empty. `name`: of an
         * upload its id, of a file its path; of an address that is asked for.
         */
        source: z.object({ by: z.enum(['upload', 'path', 'url']), name: z.string(), database: z.string() }).optional(),
        /** Certificates in PEM of the authority of the bucket; absent: those that the server trusts. */
        ca: z.string().optional(),
      }),
      result: z.object({ dump_bytes: z.int() }),
      known: z.object({}),
      resultIn: 'result',
      secrets: [],
      capability: 'tasks.restore',
      gated: [
        {
          field: 'format',
          capability: 'tasks.volumes',
          message: 'The agent of the server cannot restore volumes: upgrade the agent',
        },
        {
          field: 'log',
          capability: 'archive',
          message: 'The agent of the server cannot recover databases to an instant: upgrade the agent',
        },
        {
          field: 'source',
          capability: 'tasks.import',
          message: 'The agent of the server cannot import dumps: upgrade the agent',
        },
      ],
      codes: { timeout: 'restore_timeout', failed: 'restore_failed' },
      // What it has written stays in its volume.
      ifInterrupted: 'lost',
      deadlineSeconds: 24 * 60 * 60,
      output: 'system',
    },
    /** Waits until an instance has recovered to an instant, checks that it stopped there, and lets it take writes. */
    recovery: {
      noun: 'recovery',
      spec: specOf('recovery', {
        /** The type of the engine, by the words of `databases/engines.ts`. */
        engine: z.string(),
        /** The assignment that recovers. */
        instance: z.string(),
        /** Name of its volume at the engine. */
        volume: z.string(),
        target_time: z.string(),
      }),
      result: z.object({
        /** Of the last transaction that was recovered; absent: none was committed since the base backup. */
        last_commit_at: z.string().optional(),
        timeline: z.int(),
      }),
      known: z.object({}),
      resultIn: 'result',
      secrets: [],
      capability: 'archive',
      gated: [],
      codes: { timeout: 'recovery_timeout', failed: 'recovery_failed' },
      // An instance that takes writes has no stand to check any more.
      ifInterrupted: 'lost',
      deadlineSeconds: 24 * 60 * 60,
      output: 'system',
    },
  }) as const satisfies Record<string, TaskRow>;
