#!/usr/bin/env bash
# Installs what the tests on real servers need and this machine lacks:
# redis-server, PostgreSQL, Chromium, promtool, and a C compiler for the race
# detector. Where it may not, it says what to type and fails.
. "$(dirname "$0")/lib.sh"

# compiles says whether there is a C compiler, with its headers.
compiles() {
  local cc
  cc=$(go env CC)
  printf '#include <stdlib.h>\nint main(void) { return 0; }\n' |
    ${cc:-cc} -x c -fsyntax-only - >/dev/null 2>&1
}

# has_postgres looks where the test of examples/fencing does.
has_postgres() {
  local initdb
  if [ -n "${ONCEGUARD_POSTGRES_BIN:-}" ] || have initdb; then return; fi
  for initdb in /usr/lib/postgresql/*/bin/initdb /opt/homebrew/opt/postgresql*/bin/initdb /usr/local/opt/postgresql*/bin/initdb; do
    if [ -x "$initdb" ]; then return; fi
  done
  false
}

# has_chromium looks where internal/realtest does.
has_chromium() {
  local browser
  if [ -n "${ONCEGUARD_CHROMIUM:-}" ]; then return; fi
  for browser in chromium chromium-browser google-chrome \
    /Applications/Chromium.app/Contents/MacOS/Chromium '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'; do
    if have "$browser"; then return; fi
  done
  false
}

debian='' macos=''
if [ -z "${ONCEGUARD_REDIS_SERVER:-}" ] && ! have redis-server; then
  debian=' redis-server' macos='brew install redis'
fi
if ! has_postgres; then
  debian="$debian postgresql" macos="${macos:+$macos && }brew install postgresql@17"
fi
if ! has_chromium; then
  debian="$debian chromium" macos="${macos:+$macos && }brew install --cask chromium"
fi
if [ -z "${ONCEGUARD_PROMTOOL:-}" ] && ! have promtool; then
  debian="$debian prometheus" macos="${macos:+$macos && }brew install prometheus"
fi
if ! compiles; then
  debian="$debian gcc libc6-dev" macos="${macos:+$macos && }xcode-select --install"
fi
if [ -z "$debian" ]; then exit 0; fi

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n env DEBIAN_FRONTEND=noninteractive "$@"; fi; }

by_hand() {
  die "The tests need what this machine lacks. Install it, then run \`make test\` again:

  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install -y$debian
  macOS:           $macos

Ubuntu has no Chromium of its own for apt-get: Google Chrome does as well, and so does what is elsewhere:

  ONCEGUARD_REDIS_SERVER=/path/to/redis-server ONCEGUARD_POSTGRES_BIN=/path/to/postgresql/bin \\
    ONCEGUARD_CHROMIUM=/path/to/chromium ONCEGUARD_PROMTOOL=/path/to/promtool make test"
}
if ! have apt-get || { [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; }; then by_hand; fi

say "installing with apt-get:$debian"
export DEBIAN_FRONTEND=noninteractive
as_root apt-get update -q </dev/null >&2 || by_hand
# shellcheck disable=SC2086 # a list
as_root apt-get install -q -y --no-install-recommends $debian </dev/null >&2 || by_hand

# The packages start servers of the system. The tests run their own.
for service in redis-server postgresql prometheus; do
  case "$debian " in *" $service "*)
    if have systemctl && [ -d /run/systemd/system ]; then
      as_root systemctl disable --now "$service" >&2 || true
    elif [ -x "/etc/init.d/$service" ]; then
      as_root "/etc/init.d/$service" stop >&2 || true
    fi ;;
  esac
done
