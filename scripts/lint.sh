#!/usr/bin/env bash
# Runs a command of the linter over all modules: run (the default) or fmt.
. "$(dirname "$0")/lib.sh"

lint=$(linter)
dirs=$(packaged)
for dir in $dirs; do
  step "${1:-run}" "$dir" "$lint" "${1:-run}" ./...
done
finish "${1:-lint}"
