#!/bin/bash
# Keeps what the official image of MongoDB promises to databases: MONGO_INITDB_ROOT_USERNAME and _PASSWORD, each also as
# _FILE, make a user who may do all. Other than there, nobody comes in without one, and no script is run for a new database.
set -eo pipefail
. /usr/local/lib/database-entrypoint.sh

[ "${1-}" = document-server ] || exec "$@"
if [ "$(id -u)" = 0 ]; then
  own mongodb /data/db /data/configdb
  as_user mongodb "$0" "$@"
fi
variable MONGO_INITDB_ROOT_USERNAME
variable MONGO_INITDB_ROOT_PASSWORD
if [ -z "$MONGO_INITDB_ROOT_USERNAME" ] || [ -z "$MONGO_INITDB_ROOT_PASSWORD" ]; then
  refuse 'Set MONGO_INITDB_ROOT_USERNAME and MONGO_INITDB_ROOT_PASSWORD: both must be specified for a user to be created'
fi

cluster=/data/db/cluster
if [ ! -d "$cluster" ]; then
  # What an interrupted start left: a cluster has its name once it is whole.
  rm -rf "$cluster.new"
  initdb --pgdata="$cluster.new" --username=document_server --auth=trust --encoding=UTF8
  cat >>"$cluster.new/postgresql.conf" <<'SETTINGS'
# The engine connects to itself by the loopback address; nobody reaches it from another container.
listen_addresses = 'localhost'
unix_socket_directories = '/run/postgresql'
shared_preload_libraries = 'pg_cron, pg_documentdb_core, pg_documentdb'
cron.database_name = 'postgres'
documentdb.enableUserCrud = on
documentdb.enableUsernamePasswordConstraints = off
SETTINGS
  pg_ctl --pgdata="$cluster.new" --wait start
  psql --host=/run/postgresql --username=document_server --dbname=postgres --set ON_ERROR_STOP=1 --no-psqlrc --quiet <<'SQL'
\getenv user MONGO_INITDB_ROOT_USERNAME
\getenv password MONGO_INITDB_ROOT_PASSWORD
SET log_min_error_statement = panic;
CREATE EXTENSION documentdb CASCADE;
SELECT documentdb_api.create_user(json_build_object(
  'createUser', :'user'::text,
  'pwd', :'password'::text,
  'roles', '[{"role": "readWriteAnyDatabase", "db": "admin"}, {"role": "clusterAdmin", "db": "admin"}]'::json
)::text::documentdb_core.bson);
SQL
  pg_ctl --pgdata="$cluster.new" --mode fast --wait stop
  mv "$cluster.new" "$cluster"
  echo 'Init process complete; ready for start up.'
fi
unset "${!MONGO_INITDB_@}"

exec "$@" "$cluster"
