#!/usr/bin/env bash
# Prints the path of a tool that a module pins: tool.sh folder package. On first
# use the tool is built, which takes minutes: it shows that it is alive.
. "$(dirname "$0")/lib.sh"

dir=$1 package=$2 name=${2##*/}
heartbeat=15
export CGO_ENABLED=0 # one build, whether the machine has a C compiler or not
scratch

# Listing fetches the modules; -v names each package as it is compiled, all but
# the program itself; the tool command then links that into the build cache.
build() {
  cd "$dir"
  go list -deps "$package" >"$tmp/packages" 2>"$tmp/fetched"
  # shellcheck disable=SC2046 # a list
  go build -v $(go list -f '{{join .Imports " "}}' "$package") 2>"$tmp/compiled"
  go tool -n "$name" >"$tmp/path" 2>"$tmp/linked"
}

lines() { if [ -f "$tmp/$1" ]; then wc -l <"$tmp/$1" | tr -d ' '; else echo 0; fi; }

progress() {
  if [ -f "$tmp/linked" ]; then
    echo 'linking'
  elif [ -f "$tmp/compiled" ]; then
    echo "$(lines compiled) packages compiled, of at most $(lines packages)"
  else
    echo "fetching modules, $(lines fetched) so far"
  fi
}

say "$name: looking for the build of the pinned version"
build &
job=$!
trap 'kill $job 2>/dev/null || true; rm -rf "$tmp"' EXIT
begin=$SECONDS next=$heartbeat
while kill -0 $job 2>/dev/null; do
  sleep 1
  if [ $((SECONDS - begin)) -ge $next ]; then
    [ $next -gt $heartbeat ] || echo "It is built once, in some minutes, into Go's build cache." >&2
    echo "  $((SECONDS - begin)) s: $(progress)" >&2
    next=$((next + heartbeat))
  fi
done
if ! wait $job; then
  cat "$tmp/fetched" "$tmp/compiled" "$tmp/linked" 2>/dev/null | tail -30 >&2 || true
  die "The pinned $name does not build."
fi
cat "$tmp/path"
