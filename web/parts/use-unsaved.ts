import { createContext } from 'preact';
import { useContext, useEffect } from 'preact/hooks';

/** Has the reader asked by `guard` before the page is left; returns how that ends. */
export type Protect = (guard: () => boolean) => () => void;

export const ProtectContext = createContext<Protect>(() => () => undefined);

/** Asks before the page is left while `isUnsaved`. */
export function useUnsaved(isUnsaved: boolean, question = 'What you entered is not saved. Leave it?'): void {
  const protect = useContext(ProtectContext);
  useEffect(() => (isUnsaved ? protect(() => confirm(question)) : undefined), [isUnsaved, question, protect]);
}
