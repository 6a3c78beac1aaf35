# What the entrypoints of the database images share.

refuse() {
  printf 'Error: %s\n' "$*" >&2
  exit 1
}

# Exports the variable NAME: its value, else the content of the file that NAME_FILE names, else a default.
# Usage: variable NAME [DEFAULT]
variable() {
  local name=$1 file=$1_FILE value=${2-}
  if [ -n "${!name-}" ]; then
    [ -z "${!file-}" ] || refuse "both $name and $file are set (but are exclusive)"
    value=${!name}
  elif [ -n "${!file-}" ]; then
    value=$(<"${!file}")
  fi
  export "$name=$value"
  unset "$file"
}

# Whether one of the arguments makes the server print something and end.
# Usage: only_prints PATTERN ARGUMENT…
only_prints() {
  local argument
  for argument in "${@:2}"; do
    [[ $argument != @($1) ]] || return 0
  done
  return 1
}

# Goes on as that user of the image, without a right of root.
# Usage: as_user USER PROGRAM ARGUMENT…
as_user() {
  HOME=$(getent passwd "$1" | cut -d: -f6)
  export HOME
  exec setpriv --reuid="$1" --regid="$1" --init-groups -- "${@:2}"
}

# Gives folders and all in them to a user.
# Usage: own USER FOLDER…
own() {
  find "${@:2}" \! -user "$1" -exec chown "$1" '{}' +
}

# Runs what the users of an image put into its folder for new databases, in the order of the names.
# Usage: run_init_files COMMAND-THAT-READS-SQL
run_init_files() {
  local file
  for file in /docker-entrypoint-initdb.d/*; do
    echo "Running $file"
    case $file in
      *.sh)
        # shellcheck source=/dev/null
        if [ -x "$file" ]; then "$file"; else . "$file"; fi
        ;;
      *.sql) "$1" <"$file" ;;
      *.sql.gz) gunzip --stdout "$file" | "$1" ;;
      *.sql.xz) xzcat "$file" | "$1" ;;
      *.sql.zst) zstd --decompress --stdout "$file" | "$1" ;;
      *) echo "Ignored: $file" ;;
    esac
  done
}
