/** An object of the tenant that projects use: a server, or a credential. */
export interface Granted {
  readonly desired: {
    /** Projects that may use it; absent: all. */
    readonly allowed_projects?: readonly string[] | undefined;
  };
}

/** Whether the project may use the object. */
export function grants({ desired }: Granted, projectId: string): boolean {
  return desired.allowed_projects === undefined || desired.allowed_projects.includes(projectId);
}
