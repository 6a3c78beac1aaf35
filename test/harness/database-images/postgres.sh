#!/bin/bash
# Keeps what the official image of PostgreSQL promises: POSTGRES_USER, _PASSWORD, _DB and _INITDB_ARGS, each also as _FILE,
# POSTGRES_INITDB_WALDIR and POSTGRES_HOST_AUTH_METHOD, and /docker-entrypoint-initdb.d.
set -eo pipefail
shopt -s extglob nullglob
. /usr/local/lib/database-entrypoint.sh

[ "${1:0:1}" != - ] || set -- postgres "$@"
if [ "${1-}" != postgres ] || only_prints '-\?|--help|--describe-config|-V|--version' "$@"; then exec "$@"; fi

if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" /var/run/postgresql ${POSTGRES_INITDB_WALDIR:+"$POSTGRES_INITDB_WALDIR"}
  chmod 3775 /var/run/postgresql
  chmod 700 "$PGDATA" ${POSTGRES_INITDB_WALDIR:+"$POSTGRES_INITDB_WALDIR"}
  own postgres "$PGDATA" /var/run/postgresql ${POSTGRES_INITDB_WALDIR:+"$POSTGRES_INITDB_WALDIR"}
  as_user postgres "$0" "$@"
fi
[ ! -s "$PGDATA/PG_VERSION" ] || exec "$@"

variable POSTGRES_PASSWORD
variable POSTGRES_USER postgres
variable POSTGRES_DB "$POSTGRES_USER"
variable POSTGRES_INITDB_ARGS
if [ -z "$POSTGRES_PASSWORD" ] && [ "${POSTGRES_HOST_AUTH_METHOD-}" != trust ]; then
  refuse 'Database is uninitialized and superuser password is not specified: set POSTGRES_PASSWORD'
fi
ls /docker-entrypoint-initdb.d >/dev/null

# The arguments come as one text that a shell is to split.
eval "initdb --username=\"\$POSTGRES_USER\" --pwfile=<(printf '%s\n' \"\$POSTGRES_PASSWORD\") \
  ${POSTGRES_INITDB_WALDIR:+--waldir \"\$POSTGRES_INITDB_WALDIR\"} $POSTGRES_INITDB_ARGS"
method=${POSTGRES_HOST_AUTH_METHOD:-$(postgres -C password_encryption "${@:2}")}
printf '\nhost all all all %s\n' "$method" >>"$PGDATA/pg_hba.conf"

# Names go by the environment, as an argument with `=` would be read as a connection string.
as_superuser() {
  PGHOST='' PGHOSTADDR='' PGPASSWORD=$POSTGRES_PASSWORD PGUSER=$POSTGRES_USER PGDATABASE=$1 \
    psql --set ON_ERROR_STOP=1 --no-password --no-psqlrc "${@:2}"
}
run_sql() {
  as_superuser "$POSTGRES_DB"
}

# Nobody but this script reaches it, by a socket.
pg_ctl --options "$(printf '%q ' "${@:2}" -c listen_addresses= -p "${PGPORT:-5432}")" --wait start
as_superuser postgres <<'SQL'
\getenv database POSTGRES_DB
SELECT format('CREATE DATABASE %I', :'database')
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
SQL
run_init_files run_sql
pg_ctl --mode fast --wait stop
echo 'PostgreSQL init process complete; ready for start up.'

exec "$@"
