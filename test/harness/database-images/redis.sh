#!/bin/sh
# Keeps what the official image of Redis promises: arguments of the server alone are enough, it runs as its own user, it
# takes clients from other hosts without a password, and its files are for that user only.
set -e

case ${1-} in -* | *.conf) set -- redis-server "$@" ;; esac
[ "${1-}" = redis-server ] || exec "$@"

if [ "$(id -u)" = 0 ]; then
  find . ! -user redis -exec chown redis '{}' +
  exec setpriv --reuid=redis --regid=redis --init-groups -- "$0" "$@"
fi
[ "$(umask)" != 0022 ] || umask 0077

# The official image is built with another default of this setting.
case " $* " in
  *' --protected-mode '* | *' --version '* | *' -v '* | *' --help '* | *' -h '* | *' --test-memory '* | *' --check-system '*) ;;
  *) if ! grep -qis '^[[:space:]]*protected-mode' "${2-}"; then set -- "$@" --protected-mode no; fi ;;
esac
exec "$@"
