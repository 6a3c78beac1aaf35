/** What `dropped` of a frame `gap` is where what is missing was not counted: at least so much is. */
export const uncounted = 1;
