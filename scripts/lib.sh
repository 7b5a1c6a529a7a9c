# shellcheck shell=bash
# Common to the scripts: source it first. Works with bash 3.2, as macOS has it.

set -euo pipefail
root=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# One version list per module, whatever workspace the checkout lies in; and no
# version stamp, which fails in a checkout that belongs to another user.
export GOWORK=off
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf '%s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# modules prints the folder of every module of ours, one a line.
modules() {
  git -c safe.directory="$root" ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' |
    while read -r mod; do [ ! -f "$mod" ] || dirname "$mod"; done | sort
}

# packaged is modules without those that only bring a Temporal server, whose vet
# and tests would compile all of it. Call it in an assignment of its own, so that
# its failure ends the script: a list that is too short would pass everything in
# silence.
packaged() {
  local dirs
  dirs=$(modules | grep -vx -e tools/temporal -e tools/temporal-next)
  case "
$dirs
" in
  *'
.
'*) printf '%s\n' "$dirs" ;;
  *) die "no module was found at $root: is it a git checkout?" ;;
  esac
}

# scratch makes $tmp, which is removed when the script ends.
scratch() {
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' EXIT
}

# step runs a command in a folder, and notes it in $failed if it fails.
failed=''
step() { # step name folder command...
  local name=$1 dir=$2
  shift 2
  say "$name ($dir)"
  (cd "$dir" && "$@") || failed="$failed
  $name ($dir)"
}

# finish ends the script by what step noted.
finish() { # finish name
  [ -z "$failed" ] || die "
$1: FAILED$failed"
  say "$1: passed"
}

# linter prints the path of the pinned linter.
linter() { scripts/tool.sh tools github.com/golangci/golangci-lint/v2/cmd/golangci-lint; }
