import type { Content } from './database-dump.ts';

const bytes = String.raw`(SELECT string_agg(set_byte('\x00', 0, n), '' ORDER BY n) FROM generate_series(0, 255) AS n)`;

/** Objects of each kind that a cluster has, with names and contents that a restore easily takes for something else. */
const fill = String.raw`
\set ON_ERROR_STOP on
DROP DATABASE app;
-- other than that of a new cluster
CREATE DATABASE app TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C';
REVOKE CONNECT ON DATABASE postgres FROM PUBLIC;
CREATE TABLE kept_in_postgres (it text);
INSERT INTO kept_in_postgres VALUES ('1');

CREATE ROLE "o'brien" LOGIN PASSWORD 'of o''brien' CONNECTION LIMIT 3 VALID UNTIL '2099-01-01';
CREATE ROLE "weird ""role\name :app $$ -- " CREATEDB NOINHERIT;
CREATE ROLE readers;
CREATE ROLE "Ünïcode 🦆";
GRANT readers TO "o'brien" WITH ADMIN OPTION;
GRANT "weird ""role\name :app $$ -- " TO readers;
SET ROLE "o'brien";
GRANT readers TO "Ünïcode 🦆";
RESET ROLE;
GRANT pg_read_all_data TO readers;
ALTER ROLE "o'brien" SET default_transaction_read_only = on;
ALTER ROLE app SET search_path = "$user", public, "it's";
ALTER ROLE app SET statement_timeout = '10min';
COMMENT ON ROLE readers IS E'first line\n\\! touch /tmp/ran\n\\connect nowhere';

CREATE DATABASE "Weird ""DB' \ % $$ --" OWNER "o'brien" TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C' CONNECTION LIMIT 7;
CREATE DATABASE empty;
CREATE DATABASE "read only";
CREATE DATABASE "Ünïcode 🦆 = x";
COMMENT ON DATABASE empty IS E'\n\\! touch /tmp/ran\n';
ALTER DATABASE empty SET work_mem = '5MB';
ALTER ROLE readers IN DATABASE empty SET work_mem = '6MB';
GRANT CREATE ON DATABASE empty TO readers;

\connect template1
CREATE TABLE for_new_databases (it int);

\connect "Weird ""DB' \ % $$ --"
CREATE TABLE "ta""ble" (it text);
INSERT INTO "ta""ble" VALUES (U&'\00e9\00ff');

\connect app
CREATE EXTENSION hstore; CREATE EXTENSION pg_trgm; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION pgcrypto;
CREATE SCHEMA others; CREATE EXTENSION "uuid-ossp" SCHEMA others; CREATE EXTENSION postgres_fdw; CREATE EXTENSION btree_gist;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'it''s', dbname 'x');
CREATE USER MAPPING FOR readers SERVER elsewhere OPTIONS (user 'u', password 'p''w\');
CREATE FOREIGN TABLE away (it int) SERVER elsewhere;
CREATE TYPE mood AS ENUM ('sad', 'it''s', E'new\nline');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN even AS int CHECK (VALUE % 2 = 0);
CREATE SEQUENCE counter START 7 INCREMENT 3 CACHE 5; SELECT nextval('counter'), nextval('counter');

CREATE TABLE every (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, serial bigserial, blob bytea, content text, mood mood, pair pair[], even even,
  json jsonb, tags hstore, path ltree, name citext, span tstzrange, number numeric, real8 float8, at timestamptz,
  doubled int GENERATED ALWAYS AS (even * 2) STORED, xml xml, bits bit varying, EXCLUDE USING gist (id WITH =, span WITH &&));
INSERT INTO every (blob, content, mood, pair, even, json, tags, path, name, span, number, real8, at, xml, bits) VALUES
 (${bytes}, E'\\.\n\\! touch /tmp/ran\n\t\r\b\f\v\x01\x7f \\N ''"; DROP TABLE every; --', 'it''s', ARRAY[ROW(1, E'a\\"b,\n')::pair], 4,
  '{"a": ["\u0001", "\\", 1e400]}', 'a=>NULL, "b c"=>"\"\\"', 'a.b', 'Case', '[2020-01-01,infinity)', 'NaN', '-0', '-infinity', '<a>&lt;</a>', B'0101'),
 ('', '', E'new\nline', '{}', -2, 'null', '', '', '', 'empty', 1e-1000, 1.7976931348623157e308, '4713-01-01 BC', NULL, ''),
 (NULL, U&'\+01F986 e\0301 \feff \202e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'NaN', NULL, NULL, NULL);
CREATE TABLE texts (it text); INSERT INTO texts VALUES ('--'), ('-- PostgreSQL database cluster dump complete'), ('--'), (''), ('\.');
CREATE TABLE "new
line" ("co""l
umn" text, "select" int); INSERT INTO "new
line" VALUES ('x', 1);
COMMENT ON TABLE "new
line" IS E'\n\\! touch /tmp/ran\n\\unrestrict\n';
CREATE TABLE none ();
CREATE TABLE many AS SELECT n, md5(n::text) AS digest FROM generate_series(1, 20000) AS n;
CREATE UNIQUE INDEX ON many (n) INCLUDE (digest) WHERE n > 10;
CREATE INDEX ON many USING gin (digest gin_trgm_ops);
CREATE STATISTICS correlated ON n, digest FROM many;
CREATE UNLOGGED TABLE unlogged AS SELECT 1 AS it;

CREATE TABLE egg (id int PRIMARY KEY, hen int NOT NULL); CREATE TABLE hen (id int PRIMARY KEY, egg int NOT NULL REFERENCES egg DEFERRABLE INITIALLY DEFERRED);
ALTER TABLE egg ADD FOREIGN KEY (hen) REFERENCES hen DEFERRABLE INITIALLY DEFERRED;
BEGIN; INSERT INTO egg VALUES (1, 1); INSERT INTO hen VALUES (1, 1); COMMIT;
CREATE TABLE parted (n int, s text) PARTITION BY RANGE (n);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10); CREATE TABLE parted_d PARTITION OF parted DEFAULT;
INSERT INTO parted VALUES (1, 'a'), (99, 'b');
CREATE TABLE child (extra int) INHERITS (texts); INSERT INTO child VALUES ('inherited', 1);

CREATE FUNCTION shout(it text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $outer$
BEGIN
/*
\! touch /tmp/ran
*/
  RETURN upper(it) || $$'$$;
END $outer$;
CREATE FUNCTION steps(n int) RETURNS SETOF int LANGUAGE sql BEGIN ATOMIC SELECT generate_series(1, n); END;
CREATE PROCEDURE nothing() LANGUAGE sql SECURITY DEFINER SET search_path = '' AS 'SELECT';
CREATE AGGREGATE together(text) (sfunc = textcat, stype = text, initcond = '');
CREATE OPERATOR === (leftarg = text, rightarg = text, function = texteq);
CREATE COLLATION reverse (provider = libc, locale = 'C');
CREATE TEXT SEARCH CONFIGURATION plain (COPY = simple);
CREATE VIEW first_view AS SELECT n, digest, shout(digest) AS loud FROM many WHERE n < 100;
CREATE VIEW second_view WITH (security_barrier) AS SELECT * FROM first_view JOIN every ON id = n;
CREATE RECURSIVE VIEW recursive_view (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM recursive_view WHERE n < 5;
CREATE MATERIALIZED VIEW third_view AS SELECT count(*) FROM second_view; CREATE MATERIALIZED VIEW unfilled AS SELECT 1 WITH NO DATA;
CREATE TABLE log (it text, at timestamptz DEFAULT now());
CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log VALUES (tg_op); RETURN NEW; END $$;
CREATE TRIGGER of_many AFTER INSERT OR UPDATE ON many FOR EACH ROW EXECUTE FUNCTION logged();
CREATE TRIGGER disabled BEFORE UPDATE ON many FOR EACH ROW EXECUTE FUNCTION logged(); ALTER TABLE many DISABLE TRIGGER disabled;
UPDATE many SET digest = digest WHERE n = 1;
CREATE RULE as_insert AS ON INSERT TO first_view DO INSTEAD INSERT INTO log VALUES (NEW.digest);
ALTER TABLE egg ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON egg TO readers USING (id > 0);
GRANT SELECT (n), UPDATE ON many TO readers WITH GRANT OPTION; ALTER TABLE many OWNER TO "o'brien";
ALTER DEFAULT PRIVILEGES FOR ROLE "o'brien" IN SCHEMA public GRANT SELECT ON TABLES TO readers;
CREATE PUBLICATION all_tables FOR ALL TABLES;
CREATE SUBSCRIPTION from_elsewhere CONNECTION 'host=127.0.0.1 dbname=x' PUBLICATION y WITH (connect = false);
SELECT lo_from_bytea(4711, ${bytes}); SELECT lo_from_bytea(4712, ''); COMMENT ON LARGE OBJECT 4711 IS 'it''s'; ALTER LARGE OBJECT 4711 OWNER TO "o'brien";
CREATE FUNCTION watched() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no %', tg_tag; END $$;
CREATE EVENT TRIGGER watch ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION watched();

\connect "read only"
CREATE TABLE it (n int); INSERT INTO it VALUES (1);
ALTER DATABASE "read only" SET default_transaction_read_only = on;
`;

/** Rows of each table of a database, as a checksum, and its large objects. */
const rows = String.raw`
SELECT current_database();
SELECT format('SELECT %L, count(*), md5(string_agg(md5(t::text), '''' ORDER BY md5(t::text))) FROM ONLY %I.%I AS t', relname, nspname, relname)
FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE relkind = 'r' AND nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY nspname, relname \gexec
SELECT sequencename, last_value FROM pg_sequences ORDER BY 1;
SELECT oid, lomowner::regrole, md5(lo_get(oid)) FROM pg_largeobject_metadata ORDER BY 1;
`;
const looks = String.raw`
\set ON_ERROR_STOP on
SELECT datname, pg_encoding_to_char(encoding), datcollate, datconnlimit, datdba::regrole, (SELECT array_agg(it::text ORDER BY it::text) FROM unnest(datacl) AS it), shobj_description(oid, 'pg_database') FROM pg_database ORDER BY 1;
SELECT r.*, a.rolpassword FROM (SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolconnlimit, rolvaliduntil, rolbypassrls FROM pg_roles) AS r JOIN pg_authid AS a USING (rolname) WHERE rolname <> 'app' ORDER BY 1;
SELECT roleid::regrole::text, member::regrole::text, grantor::regrole::text, admin_option, inherit_option, set_option FROM pg_auth_members ORDER BY 1, 2, 3;
SELECT datname, rolname, setconfig FROM pg_db_role_setting LEFT JOIN pg_database AS d ON d.oid = setdatabase LEFT JOIN pg_roles AS r ON r.oid = setrole ORDER BY 1, 2;
${rows}
\connect postgres
${rows}
\connect template1
${rows}
\connect empty
${rows}
\connect "read only"
${rows}
\connect "Weird ""DB' \ % $$ --"
SET client_encoding = 'UTF8';
${rows}
\connect app
SELECT doubled, encode(blob, 'hex'), content FROM every ORDER BY id;
SELECT shout('a'), (SELECT sum(n) FROM recursive_view), (SELECT count(*) FROM second_view);
SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1;
SELECT evtname, evtenabled, evttags FROM pg_event_trigger;
SELECT extname, extversion FROM pg_extension ORDER BY 1;
`;

export const postgresContent: Content = {
  fill,
  fillAs: ['psql', '-Xq', '-o', '/dev/null', "dbname=postgres options='-c client_min_messages=error'"],
  looks: [
    { command: ['psql', '-XqtA'], input: looks },
    // all definitions, but for what each dump has of its own
    { command: ['pg_dumpall', '--no-role-passwords', '--restrict-key=none'], input: '' },
    { command: ['test', '!', '-e', '/tmp/ran'], input: '' },
  ],
  spoil: (dump) =>
    dump.replace('ALTER TABLE public.many OWNER TO "o\'brien"', 'ALTER TABLE public.many OWNER TO nobody'),
  complaint: /^PostgreSQL refused a part of the dump: psql:<stdin>:\d+: ERROR: {2}42704: role "nobody" does not exist$/,
  login: ({ username, password, database }, host) => ({
    env: { PGPASSWORD: password },
    command: ['psql', '-XqtA', '-h', host, '-U', username, '-d', database, '-c', 'SELECT 1'],
  }),
};
