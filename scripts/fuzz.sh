#!/usr/bin/env bash
# Runs every fuzz target for a while: fuzz.sh [time each], 5 seconds by default.
. "$(dirname "$0")/lib.sh"

each=${1:-5s}
for dir in $(packaged); do
  for package in $(cd "$dir" && go list -f '{{.Dir}}' ./...); do
    for target in $(cat "$package"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do
      step "fuzz $target" "$package" go test -run '^$' -fuzz "^$target\$" -fuzztime "$each" .
    done
  done
done
finish fuzz
