import { go } from './go.ts';
import { hasSubprojects, java, subprojects } from './java.ts';
import { node } from './node.ts';
import { php } from './php.ts';
import { isOfPython, python } from './python.ts';
import { lacking, unusedSecrets, type DockerfileSettings, type Language, type Recipe } from './recipe.ts';
import type { RepositoryFiles } from './repository-files.ts';
import { ruby } from './ruby.ts';
import { rust } from './rust.ts';
import { staticFiles } from './static.ts';

export interface GeneratedDockerfile {
  language: string;
  /** What was found and what follows from it, a sentence each. */
  reasons: readonly string[];
  text: string;
  /** Patterns for `.dockerignore`, before those of the repository. */
  ignore: readonly string[];
}

/** In order: of a repository that several recognise, the first one. */
const languages: readonly Language[] = [go, rust, java, php, ruby, node, python, staticFiles];

const notRecognised =
  'the repository has none of package.json, requirements.txt, pyproject.toml, main.py, go.mod, Cargo.toml, pom.xml, build.gradle, Gemfile, composer.json, index.php and index.html in the folder that is built in. Add one of them, add a Dockerfile and set dockerfile_path, or set build_context to the folder of the application';

/**
 * Generates the Dockerfile of a folder from what its files declare. The same files and settings give the same text.
 * @throws RuntimeFailure `dockerfile_not_found` with what to add; `invalid_source`, `path_outside_repository`
 */
export async function generateDockerfile(
  files: RepositoryFiles,
  settings: DockerfileSettings,
): Promise<GeneratedDockerfile> {
  const found = await recipeFor(files, settings);
  if (found === undefined) throw lacking(notRecognised);
  const { language, reasons, lines, ignore } = found;
  return { language, reasons: [...reasons, ...unusedSecrets(settings, lines)], text: lines.join('\n'), ignore };
}

const noSite =
  'there is no index.html, also not in public, dist or www, and package.json has no script build of a tool whose output is known, such as vite, astro or react-scripts: add one of them, or a Dockerfile';

async function recipeFor(files: RepositoryFiles, settings: DockerfileSettings): Promise<Recipe | undefined> {
  if (settings.appType === 'static') return siteFor(files, settings);
  for (const language of languages) {
    if (language === node && (await isOfPython(files, settings))) continue;
    const recipe = await language(files, settings);
    if (recipe !== undefined) return recipe;
  }
  // Other languages may have a part that Gradle builds, such as an application of Android: theirs come before.
  if (await hasSubprojects(files)) throw lacking(subprojects);
  return undefined;
}

/** What a known tool writes, or else the files as they are. */
async function siteFor(files: RepositoryFiles, settings: DockerfileSettings): Promise<Recipe | undefined> {
  if (!(await files.has('package.json'))) return staticFiles(files, settings);
  const built = await node(files, settings);
  if (built !== undefined) return built;
  const it = await staticFiles(files, settings);
  if (it === undefined) throw lacking(noSite);
  return {
    ...it,
    reasons: [...it.reasons, 'As no tool is known that writes a site, no script of package.json is run'],
  };
}
