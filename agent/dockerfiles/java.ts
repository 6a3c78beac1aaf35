import { z } from 'zod';
import {
  argLines,
  copy,
  dividedArgs,
  exec,
  from,
  header,
  homeLine,
  lacking,
  portLines,
  run,
  user,
  type DockerfileSettings,
  type Language,
  type Recipe,
} from './recipe.ts';
import { tomlIn, type RepositoryFiles } from './repository-files.ts';
import { shellStart } from './start.ts';
import { pinned } from './version.ts';

const usual = '21';
const releases = ['8', '11', '17', '21', '25'];
const ignore = ['.git', 'target', 'build', '.gradle'];
const notToRun = ['*-plain.jar', '*-sources.jar', '*-javadoc.jar', '*-tests.jar', 'original-*'];
/** Finds the jar that runs: one with all that it needs, or else the only one. Says which there are if it is not one. */
const pickJar = (folder: string): string =>
  [
    `RUN find ${folder} -maxdepth 1 '(' -name '*-jar-with-dependencies.jar' -o -name '*-all.jar' ')' > /tmp/jars`,
    `if test ! -s /tmp/jars; then find ${folder} -maxdepth 1 -name '*.jar' ${notToRun.map((it) => `! -name '${it}'`).join(' ')} > /tmp/jars; fi`,
    `if test "$(wc -l < /tmp/jars)" != 1; then echo "$(wc -l < /tmp/jars) jars in ${folder}, one is expected: $(head -n 5 /tmp/jars)" >&2; exit 1; fi`,
    'cp "$(cat /tmp/jars)" /app.jar',
  ].join(' && ');

/** Programs of Java, and of other languages of its machine, that Maven or Gradle build. */
export const java: Language = async (files, settings) => {
  const pom = await files.text('pom.xml');
  if (pom !== undefined) return maven(files, pom, settings);
  for (const file of ['build.gradle', 'build.gradle.kts']) {
    const build = await files.text(file);
    if (build !== undefined) return gradle(files, file, await withPlugins(files, build), settings);
  }
  return undefined;
};

/** What is lacking where subprojects of Gradle are all that a repository has. */
export const subprojects =
  'the build of Gradle has its programs in subprojects: add a Dockerfile that builds one of them, or the plugin org.springframework.boot, io.ktor.plugin or com.gradleup.shadow to the root project';

/** Whether settings of Gradle name subprojects. */
export async function hasSubprojects(files: RepositoryFiles): Promise<boolean> {
  for (const file of ['settings.gradle', 'settings.gradle.kts'])
    if (/^[ \t]*include\b/m.test((await files.text(file)) ?? '')) return true;
  return false;
}

/** What is read of the version catalogue of Gradle. */
const Catalogue = z.object({
  plugins: z
    .record(z.string(), z.union([z.string(), z.object({ id: z.string() }).transform(({ id }) => id)]).catch(''))
    .catch({})
    .default({}),
});

/** The text of a build file, with plugins of the version catalogue by their ids. */
async function withPlugins(files: RepositoryFiles, build: string): Promise<string> {
  if (!build.includes('libs.plugins.')) return build;
  const { plugins = {} } = (await tomlIn(files, 'gradle/libs.versions.toml', Catalogue)) ?? {};
  const ids = new Map(
    Object.entries(plugins).map(([alias, said]) => [alias.replaceAll(/[-_]/g, '.'), said.split(':')[0] ?? '']),
  );
  return build.replaceAll(/\blibs\.plugins\.([A-Za-z0-9.]{1,200})/g, (whole, alias: string) => ids.get(alias) ?? whole);
}

/** Plugins that make a jar which runs, with the task that does. */
const plugins = [
  { id: /org\.springframework\.boot\b/, task: 'bootJar' },
  { id: /io\.ktor\.plugin\b/, task: 'buildFatJar' },
  { id: /com\.(?:github\.johnrengelman|gradleup)\.shadow\b/, task: 'shadowJar' },
  { id: /Main-Class/, task: 'jar' },
];

async function maven(files: RepositoryFiles, pom: string, settings: DockerfileSettings): Promise<Recipe> {
  if (/<modules>/.test(pom)) throw lacking('pom.xml has modules: add a Dockerfile that builds one of them');
  if (!/spring-boot-maven-plugin|maven-shade-plugin|maven-assembly-plugin|<mainClass>/.test(pom))
    throw lacking(
      'pom.xml makes no jar that runs by itself: add spring-boot-maven-plugin or maven-shade-plugin with a mainClass, or a Dockerfile',
    );
  if (/<packaging>\s{0,100}war\s{0,100}<\/packaging>/.test(pom))
    throw lacking('pom.xml has packaging war, for a server of applications: set it to jar, or add a Dockerfile');
  const said = /<(?:java\.version|maven\.compiler\.release|maven\.compiler\.target|release)>\s*([\d.]{1,8})\s*</.exec(
    pom,
  )?.[1];
  const version = releaseOf(said);
  const folders = (await files.names('.')).includes('.mvn/') ? ['COPY .mvn ./.mvn'] : [];
  const caches = settings.cacheMounts ? ['/root/.m2'] : [];
  const args = dividedArgs(settings, /^MAVEN_/, [pom]);
  return recipe({
    reason: `pom.xml: an application of Java ${version}, built by Maven`,
    image: `maven:3.9-eclipse-temurin-${version}`,
    steps: [
      '# Packages first: this layer stays as long as their list does',
      copy(['pom.xml'], './'),
      ...folders,
      ...args.before,
      run([['mvn', '--batch-mode', '--quiet', 'dependency:go-offline']], caches),
      ...args.after,
      'COPY . .',
      run([['mvn', '--batch-mode', '-DskipTests', 'package']], caches),
      pickJar('target'),
    ],
    version,
    isSpring: pom.includes('spring-boot'),
    settings,
  });
}

async function gradle(
  files: RepositoryFiles,
  file: string,
  build: string,
  settings: DockerfileSettings,
): Promise<Recipe> {
  const lines = build.split('\n');
  const isLeft = lines.some((line) => /\bapply[ (]+false\b/.test(line) && plugins.some(({ id }) => id.test(line)));
  const plugin = isLeft ? undefined : plugins.find(({ id }) => id.test(build));
  if (plugin === undefined)
    throw lacking(
      (await hasSubprojects(files))
        ? subprojects
        : `${file} makes no jar that runs by itself: add the plugin org.springframework.boot, io.ktor.plugin or com.gradleup.shadow, or Main-Class in the manifest, or a Dockerfile`,
    );
  const { task } = plugin;
  const said = /JavaLanguageVersion\.of\((\d{1,2})\)|(?:sourceCompatibility|jvmToolchain)\D{1,30}(\d{1,2})/.exec(build);
  const version = releaseOf(said?.[1] ?? said?.[2]);
  const wrapper = (await files.text('gradle/wrapper/gradle-wrapper.properties')) ?? '';
  const tool = pinned(/distributions\/gradle-(\d{1,2}\.\d{1,2})/.exec(wrapper)?.[1] ?? '') ?? '8';
  return recipe({
    reason: `${file}: an application of Java ${version}, built by Gradle ${tool}`,
    image: `gradle:${tool}-jdk${version}`,
    steps: [
      ...argLines(settings),
      'COPY . .',
      run([['gradle', '--no-daemon', task]], settings.cacheMounts ? ['/home/gradle/.gradle'] : []),
      pickJar('build/libs'),
    ],
    version,
    isSpring: task === 'bootJar',
    settings,
  });
}

function recipe(it: {
  reason: string;
  image: string;
  steps: readonly string[];
  version: string;
  isSpring: boolean;
  settings: DockerfileSettings;
}): Recipe {
  const { port } = it.settings;
  const options = '-XX:MaxRAMPercentage=75';
  const start =
    it.isSpring && port !== undefined
      ? shellStart(`java ${options} -Dserver.port=$PORT -jar /app/app.jar`)
      : exec('CMD', ['java', options, '-jar', '/app/app.jar']);
  return {
    language: 'java',
    reasons: [
      it.reason,
      it.isSpring ? 'It is an application of Spring Boot: it listens on PORT' : 'It is to listen on PORT by itself',
    ],
    lines: [
      ...header,
      from(it.image, 'build'),
      'USER root',
      'WORKDIR /app',
      ...it.steps,
      '',
      '# What runs: one jar, no rights',
      from(`eclipse-temurin:${it.version}-jre`),
      homeLine,
      'COPY --from=build /app.jar /app/app.jar',
      'WORKDIR /app',
      ...portLines(port),
      `USER ${user}`,
      start,
      '',
    ],
    ignore,
  };
}

/** The release with an image that runs what is written for `said`. */
function releaseOf(said: string | undefined): string {
  const major = Number(pinned((said ?? '').replace(/^1\./, ''))?.split('.')[0] ?? usual);
  return releases.find((one) => Number(one) >= major) ?? usual;
}
