#!/bin/bash
# Keeps what the official images of MariaDB and MySQL promise: MYSQL_ROOT_PASSWORD, _ROOT_HOST, _DATABASE, _USER and
# _PASSWORD, each also as _FILE, MYSQL_ALLOW_EMPTY_PASSWORD, _RANDOM_ROOT_PASSWORD and _INITDB_SKIP_TZINFO, for MariaDB
# also under its own names, and /docker-entrypoint-initdb.d. It quotes names, which the official ones do not.
set -eo pipefail
shopt -s extglob nullglob
. /usr/local/lib/database-entrypoint.sh

server=mysqld client=mysql
if command -v mariadbd >/dev/null; then server=mariadbd client=mariadb; fi

[ "${1:0:1}" != - ] || set -- "$server" "$@"
if [[ ${1-} != @(mariadbd|mysqld) ]] || only_prints '-\?|--help|--print-defaults|-V|--version' "$@"; then exec "$@"; fi

settings=$("$@" --verbose --help 2>/dev/null) || "$@" --verbose --help >/dev/null
# A setting as the server has it with these arguments. Lines of the description are indented.
setting() {
  awk -v name="$1" '/^[a-z]/ && $1 == name { print $2 }' <<<"$settings"
}
data=$(setting datadir) socket=$(setting socket)

if [ "$(id -u)" = 0 ]; then
  mkdir -p "$data" "${socket%/*}"
  own mysql "$data" "${socket%/*}"
  as_user mysql "$0" "$@"
fi
[ ! -d "$data/mysql" ] || exec "$@"

# The variable of both engines: that of MariaDB under both names, and counts as MYSQL_NAME from here.
# Usage: account NAME [DEFAULT]
account() {
  local mysql=MYSQL_$1 mariadb=MARIADB_$1
  variable "$mysql" "${2-}"
  [ "$server" = mariadbd ] || return 0
  variable "$mariadb" "${!mysql}"
  export "$mysql=${!mariadb}"
}
account ROOT_PASSWORD
account ROOT_HOST %
account DATABASE
account USER
account PASSWORD
account RANDOM_ROOT_PASSWORD
account INITDB_SKIP_TZINFO
if [ "$server" = mariadbd ]; then
  : "${MYSQL_ALLOW_EMPTY_PASSWORD:=${MARIADB_ALLOW_EMPTY_ROOT_PASSWORD-}}"
fi
if [ -z "$MYSQL_ROOT_PASSWORD" ] && [ -z "$MYSQL_ALLOW_EMPTY_PASSWORD" ] && [ -z "$MYSQL_RANDOM_ROOT_PASSWORD" ]; then
  refuse "Database is uninitialized and password option is not specified: set ${client^^}_ROOT_PASSWORD"
fi
[ "$MYSQL_USER" != root ] || refuse 'MYSQL_USER cannot be root, whose password is MYSQL_ROOT_PASSWORD'
ls /docker-entrypoint-initdb.d >/dev/null
if [ -n "$MYSQL_RANDOM_ROOT_PASSWORD" ]; then
  MYSQL_ROOT_PASSWORD=$(head --bytes 24 /dev/urandom | base64)
  echo "GENERATED ROOT PASSWORD: $MYSQL_ROOT_PASSWORD"
fi

# A text as a literal, a name as an identifier, and a name as a pattern that only it matches.
literal() {
  local text=${1//\\/\\\\} quote="'"
  printf '%s' "$quote${text//$quote/$quote$quote}$quote"
}
identifier() {
  local quote='`'
  printf '%s' "$quote${1//$quote/$quote$quote}$quote"
}
pattern() {
  local text=${1//\\/\\\\}
  text=${text//_/\\_}
  identifier "${text//%/\\%}"
}

as_root() {
  "$client" --protocol=socket --socket="$socket" --user=root "$@"
}
run_sql() {
  MYSQL_PWD=$MYSQL_ROOT_PASSWORD as_root ${MYSQL_DATABASE:+--database="$MYSQL_DATABASE"}
}

time_zones() {
  if [ "$server" = mariadbd ]; then mariadb-tzinfo-to-sql --skip-write-binlog /usr/share/zoneinfo; fi
  if [ "$server" = mysqld ]; then mysql_tzinfo_to_sql /usr/share/zoneinfo 2>/dev/null; fi
}

statements() {
  echo "ALTER USER 'root'@'localhost' IDENTIFIED BY $(literal "$MYSQL_ROOT_PASSWORD");"
  if [ -n "$MYSQL_ROOT_HOST" ] && [ "$MYSQL_ROOT_HOST" != localhost ]; then
    echo "CREATE USER 'root'@$(literal "$MYSQL_ROOT_HOST") IDENTIFIED BY $(literal "$MYSQL_ROOT_PASSWORD");"
    echo "GRANT ALL ON *.* TO 'root'@$(literal "$MYSQL_ROOT_HOST") WITH GRANT OPTION;"
  fi
  [ -z "$MYSQL_DATABASE" ] || echo "CREATE DATABASE IF NOT EXISTS $(identifier "$MYSQL_DATABASE");"
  if [ -n "$MYSQL_USER" ] && [ -n "$MYSQL_PASSWORD" ]; then
    echo "CREATE USER $(literal "$MYSQL_USER")@'%' IDENTIFIED BY $(literal "$MYSQL_PASSWORD");"
    [ -z "$MYSQL_DATABASE" ] || echo "GRANT ALL ON $(pattern "$MYSQL_DATABASE").* TO $(literal "$MYSQL_USER")@'%';"
  fi
}

if [ "$server" = mariadbd ]; then
  # Its script splits arguments at spaces.
  plain=()
  for argument in "${@:2}"; do [[ $argument == *[[:space:]]* ]] || plain+=("$argument"); done
  mariadb-install-db --datadir="$data" --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve --rpm \
    "${plain[@]}"
else
  "$@" --initialize-insecure --default-time-zone=SYSTEM
fi

# Nobody but this script reaches it, by a socket.
"$@" --skip-networking --default-time-zone=SYSTEM --socket="$socket" &
server_id=$!
tries=0
until as_root --execute 'SELECT 1' &>/dev/null; do
  kill -0 "$server_id" 2>/dev/null || refuse 'The server ended while it was set up'
  [ $((tries += 1)) -lt 600 ] || refuse 'The server did not start within a minute'
  sleep 0.1
done
if [ -z "$MYSQL_INITDB_SKIP_TZINFO" ]; then time_zones | as_root --database=mysql; fi
if [ "$server" = mariadbd ]; then
  as_root --execute "DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys' AND (User <> 'root' OR Host <> 'localhost'); FLUSH PRIVILEGES"
fi
statements | as_root --binary-mode
run_init_files run_sql
[ -z "${MYSQL_ONETIME_PASSWORD-}" ] || run_sql <<<"ALTER USER 'root'@$(literal "$MYSQL_ROOT_HOST") PASSWORD EXPIRE;"
kill "$server_id"
wait "$server_id"
echo 'Init process done. Ready for start up.'

exec "$@"
