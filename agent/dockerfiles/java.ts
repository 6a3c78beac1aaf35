import {
  argLines,
  copy,
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
import type { RepositoryFiles } from './repository-files.ts';
import { shellStart } from './start.ts';
import { pinned } from './version.ts';

const usual = '21';
const releases = ['8', '11', '17', '21', '25'];
const ignore = ['.git', 'target', 'build', '.gradle'];
/** Finds the jar that runs, and fails if there is none or more than one. */
const pickJar = (folder: string): string =>
  `RUN find ${folder} -maxdepth 1 -name '*.jar' ! -name '*-plain.jar' ! -name '*-sources.jar' ! -name '*-javadoc.jar' ! -name '*-tests.jar' ! -name 'original-*' > /tmp/jars && test "$(wc -l < /tmp/jars)" = 1 && cp "$(cat /tmp/jars)" /app.jar`;

/** Programs of Java, and of other languages of its machine, that Maven or Gradle build. */
export const java: Language = async (files, settings) => {
  const pom = await files.text('pom.xml');
  if (pom !== undefined) return maven(files, pom, settings);
  for (const file of ['build.gradle', 'build.gradle.kts']) {
    const build = await files.text(file);
    if (build !== undefined) return gradle(files, file, build, settings);
  }
  return undefined;
};

async function maven(files: RepositoryFiles, pom: string, settings: DockerfileSettings): Promise<Recipe> {
  if (/<modules>/.test(pom)) throw lacking('pom.xml has modules: add a Dockerfile that builds one of them');
  if (!/spring-boot-maven-plugin|maven-shade-plugin|maven-assembly-plugin|<mainClass>/.test(pom))
    throw lacking(
      'pom.xml makes no jar that runs by itself: add spring-boot-maven-plugin or maven-shade-plugin with a mainClass, or a Dockerfile',
    );
  const said = /<(?:java\.version|maven\.compiler\.release|maven\.compiler\.target|release)>\s*([\d.]{1,8})\s*</.exec(
    pom,
  )?.[1];
  const version = releaseOf(said);
  const folders = (await files.names('.')).includes('.mvn/') ? ['COPY .mvn ./.mvn'] : [];
  const caches = settings.cacheMounts ? ['/root/.m2'] : [];
  return recipe({
    reason: `pom.xml: an application of Java ${version}, built by Maven`,
    image: `maven:3.9-eclipse-temurin-${version}`,
    steps: [
      '# Packages first: this layer stays as long as their list does',
      copy(['pom.xml'], './'),
      ...folders,
      run([['mvn', '--batch-mode', '--quiet', 'dependency:go-offline']], caches),
      ...argLines(settings),
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
  if (!/org\.springframework\.boot|Main-Class|com\.(?:github\.johnrengelman|gradleup)\.shadow/.test(build))
    throw lacking(
      `${file} makes no jar that runs by itself: add the plugin org.springframework.boot or com.gradleup.shadow, or Main-Class in the manifest, or a Dockerfile`,
    );
  const said = /JavaLanguageVersion\.of\((\d{1,2})\)|(?:sourceCompatibility|jvmToolchain)\D{1,30}(\d{1,2})/.exec(build);
  const version = releaseOf(said?.[1] ?? said?.[2]);
  const wrapper = (await files.text('gradle/wrapper/gradle-wrapper.properties')) ?? '';
  const tool = pinned(/distributions\/gradle-(\d{1,2}\.\d{1,2})/.exec(wrapper)?.[1] ?? '') ?? '8';
  const isShadow = /\.shadow\b/.test(build);
  const task = build.includes('org.springframework.boot') ? 'bootJar' : isShadow ? 'shadowJar' : 'jar';
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
    isSpring: build.includes('org.springframework.boot'),
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
