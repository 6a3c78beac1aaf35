# Installs what a server needs and this machine lacks, by the package manager of Debian and Ubuntu, and starts the
# Docker engine. A second run changes only what differs. What `manifests/install/patiently.sh` has stands before these lines.

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND

say() {
  echo "setpoint: $*"
}

fail() {
  say "$*"
  exit 1
}

there() {
  command -v "$1" >/dev/null 2>&1
}

answers() {
  timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
}

# What apt-get itself said last.
why() {
  printf '%s\n' "$words" | grep '^E: ' | tail -n 1
}

install() {
  there apt-get || fail "There is no apt-get to install:$*"
  # a run before this one may have been cut off
  patiently dpkg --configure -a || :
  patiently apt-get update -q || fail "apt-get update failed: $(why)"
  # shellcheck disable=SC2086 # one word per package
  patiently apt-get install -y -q --no-install-recommends $* || fail "apt-get could not install $*: $(why)"
}

start_engine() {
  answers && return
  if [ -d /run/systemd/system ]; then
    systemctl enable --now docker
  elif [ -x /etc/init.d/docker ]; then
    /etc/init.d/docker start
  fi
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    answers && return
    sleep 1
  done
  fail 'The Docker engine is installed and does not answer'
}

missing=
there docker || missing="$missing docker.io"
there git || missing="$missing git"
there iptables || missing="$missing iptables"
there curl || there wget || missing="$missing curl"
[ -d /etc/ssl/certs ] || missing="$missing ca-certificates"
[ -z "$missing" ] || install "$missing"
# later releases of Debian have the command in a package of its own
there docker || install docker-cli
start_engine
say 'All that a server needs is installed'
