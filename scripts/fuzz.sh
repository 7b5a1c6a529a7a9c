#!/usr/bin/env bash
# Runs every fuzz target for a while: fuzz.sh [time each], 5 seconds by default.
. "$(dirname "$0")/lib.sh"

each=${1:-5s}
dirs=$(packaged)
for dir in $dirs; do
  packages=$(cd "$dir" && go list -f '{{.Dir}}' ./...)
  for package in $packages; do
    for target in $(cat "$package"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do
      step "fuzz $target" "$package" go test -run '^$' -fuzz "^$target\$" -fuzztime "$each" .
    done
  done
done
finish fuzz
