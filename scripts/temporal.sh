#!/usr/bin/env bash
# Prints the path of a Temporal CLI: ONCEGUARD_TEMPORAL, else the one on the
# PATH, else the one that tools/temporal pins, which is built on first use.
. "$(dirname "$0")/lib.sh"

if [ -n "${ONCEGUARD_TEMPORAL:-}" ]; then printf '%s\n' "$ONCEGUARD_TEMPORAL"; exit; fi
if have temporal; then command -v temporal; exit; fi

package=github.com/temporalio/cli/cmd/temporal
heartbeat=15
scratch

# Listing fetches the modules; -v names each package as it is compiled, all but
# the program itself; the tool command then links that into the build cache.
build() {
  cd tools/temporal
  go list -deps "$package" >"$tmp/packages" 2>"$tmp/fetched"
  # shellcheck disable=SC2046 # a list
  go build -v $(go list -f '{{join .Imports " "}}' "$package") 2>"$tmp/compiled"
  go tool -n temporal >"$tmp/path" 2>"$tmp/linked"
}

lines() { if [ -f "$tmp/$1" ]; then wc -l <"$tmp/$1" | tr -d ' '; else echo 0; fi; }

progress() {
  if [ ! -f "$tmp/compiled" ]; then
    echo "fetching modules, $(lines fetched) so far"
  else
    echo "$(lines compiled) packages compiled, of at most $(lines packages)"
  fi
}

say "Temporal CLI: looking for the pinned build"
build &
job=$!
trap 'kill $job 2>/dev/null || true; rm -rf "$tmp"' EXIT
begin=$SECONDS next=$heartbeat
while kill -0 $job 2>/dev/null; do
  sleep 1
  if [ $((SECONDS - begin)) -ge $next ] && kill -0 $job 2>/dev/null; then
    [ $next -gt $heartbeat ] ||
      echo "It is built once, in five to ten minutes on two cores, into Go's build cache." >&2
    echo "  $((SECONDS - begin)) s: $(progress)" >&2
    next=$((next + heartbeat))
  fi
done
if ! wait $job; then
  cat "$tmp/fetched" "$tmp/compiled" "$tmp/linked" 2>/dev/null | tail -30 >&2
  die 'The pinned Temporal CLI does not build. A `temporal` on the PATH, or its path in ONCEGUARD_TEMPORAL, does as well.'
fi
cat "$tmp/path"
