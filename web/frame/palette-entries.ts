import type { Application, Environment, ObjectOf, Project, Server } from '../model.ts';
import type { Rank } from './rights.ts';
import { labelOf, simpleVerbs, whyNotVerb } from './application-verbs.ts';
import type { SimpleVerb } from './application-verbs.ts';

/** A line of the palette: a place to go to, or something to do. */
export interface Entry {
  readonly id: string;
  readonly text: string;
  readonly about: string;
  readonly why?: string;
  readonly does: { readonly go: readonly string[] } | { readonly verb: SimpleVerb; readonly application: Application };
}

/** What the palette knows of. */
export interface Known {
  readonly projects: readonly Project[];
  readonly environments: ReadonlyMap<string, Environment>;
  readonly applications: readonly Application[];
  readonly databases: readonly ObjectOf<'database'>[];
  readonly functions: readonly ObjectOf<'function'>[];
  readonly templates: readonly ObjectOf<'template'>[];
  readonly syncs: readonly ObjectOf<'sync'>[];
  readonly servers: readonly Server[];
  readonly places: readonly { readonly word: string; readonly path: string }[];
  readonly rankIn: (projectId: string) => Rank | undefined;
}

const shownEntries = 20;
const databaseTabs = ['backups', 'restore', 'logs', 'settings', 'terminal'] as const;
const functionTabs = ['code', 'try', 'executions', 'logs', 'variables', 'settings'] as const;
const tabs = ['logs', 'deployments', 'environment', 'settings', 'terminal'] as const;

/** Entries for what was typed, the best first: every word must begin a word of the entry, or be part of its name. */
export function entriesFor(typed: string, known: Known): Entry[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const names = new Map(known.projects.map((one) => [one.id, one.display_name ?? one.name]));
  const scored: { entry: Entry; score: number }[] = [];
  const offer = (entry: Entry): void => {
    const score = scoreOf(words, entry);
    if (score > 0) scored.push({ entry, score });
  };
  for (const { word, path } of known.places) offer({ id: path, text: word, about: 'Place', does: { go: [path] } });
  for (const one of known.projects)
    offer({ id: one.id, text: names.get(one.id) ?? one.name, about: 'Project', does: { go: ['projects', one.id] } });
  for (const one of known.servers)
    offer({ id: one.id, text: one.name, about: 'Server', does: { go: ['servers', one.id] } });
  for (const one of known.templates)
    offer({ id: one.id, text: one.display_name ?? one.name, about: 'Template', does: { go: ['templates', one.id] } });
  for (const one of known.databases) {
    const about = [names.get(one.project_id), known.environments.get(one.environment_id)?.name, 'database']
      .filter(Boolean)
      .join(' / ');
    offer({ id: one.id, text: one.name, about, does: { go: ['databases', one.id] } });
    if (words.length < 2) continue;
    for (const tab of databaseTabs)
      offer({
        id: `${tab} ${one.id}`,
        text: `${tab[0]?.toUpperCase()}${tab.slice(1)} of ${one.name}`,
        about,
        does: { go: ['databases', one.id, tab] },
      });
  }
  for (const entry of [...functionEntries(known, names, words.length), ...syncEntries(known, names)]) offer(entry);
  for (const one of known.applications) {
    const environment = known.environments.get(one.environment_id)?.name;
    const about = [names.get(one.project_id), environment].filter(Boolean).join(' / ');
    offer({ id: one.id, text: one.name, about, does: { go: ['applications', one.id] } });
    // what one can do to each of thousands is offered to those who have begun to say what
    if (words.length < 2) continue;
    for (const verb of simpleVerbs) {
      const why = whyNotVerb(verb, one, known.rankIn(one.project_id));
      offer({
        id: `${verb} ${one.id}`,
        text: `${labelOf(verb)} ${one.name}`,
        about,
        does: { verb, application: one },
        ...(why !== undefined && { why }),
      });
    }
    for (const tab of tabs)
      offer({
        id: `${tab} ${one.id}`,
        text: `${tab[0]?.toUpperCase()}${tab.slice(1)} of ${one.name}`,
        about,
        does: { go: ['applications', one.id, tab] },
      });
  }
  return scored
    .toSorted((a, b) => b.score - a.score)
    .slice(0, shownEntries)
    .map(({ entry }) => entry);
}

/** Functions, and their tabs once somebody has begun to say which. */
function* functionEntries(known: Known, names: ReadonlyMap<string, string>, wordCount: number): Generator<Entry> {
  for (const one of known.functions) {
    const about = [names.get(one.project_id), known.environments.get(one.environment_id)?.name, 'function']
      .filter(Boolean)
      .join(' / ');
    yield { id: one.id, text: one.name, about, does: { go: ['functions', one.id] } };
    if (wordCount < 2) continue;
    for (const tab of functionTabs)
      yield {
        id: `${tab} ${one.id}`,
        text: tab === 'try' ? `Try ${one.name}` : `${tab[0]?.toUpperCase()}${tab.slice(1)} of ${one.name}`,
        about,
        does: { go: ['functions', one.id, tab] },
      };
  }
}

function syncEntries(known: Known, names: ReadonlyMap<string, string>): Entry[] {
  return known.syncs.map((one) => ({
    id: one.id,
    text: one.name,
    about: [names.get(one.project_id), 'sync'].filter(Boolean).join(' / '),
    does: { go: ['syncs', one.id] },
  }));
}

function scoreOf(words: readonly string[], { text, about }: Entry): number {
  if (words.length === 0) return about === 'Place' || about === 'Project' ? 1 : 0;
  const own = text.toLowerCase();
  const all = `${own} ${about.toLowerCase()}`;
  let score = 0;
  for (const word of words) {
    const at = all.indexOf(word);
    if (at === -1) return 0;
    const isStart = at === 0 || /[\s/._-]/.test(all[at - 1] ?? '');
    score += (isStart ? 2 : 1) + (at < own.length ? 1 : 0);
  }
  return score + (own === words.join(' ') ? 3 : 0) - own.length / 1000;
}
