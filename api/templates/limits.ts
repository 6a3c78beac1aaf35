/** Most declarations and most variables of one template. */
export const templateLimits = { resources: 50, variables: 100 } as const;

/** Most characters of all texts of a template together, with their variables. */
export const maxRenderedChars = 1024 * 1024;
