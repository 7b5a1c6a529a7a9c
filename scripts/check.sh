#!/usr/bin/env bash
# Everything that can be said about the code without running it.
. "$(dirname "$0")/lib.sh"

# parse reads one script a time: bash -n takes the rest for its arguments.
parse() { for script; do bash -n "$script" || return; done; }
step 'shell syntax' . parse scripts/*.sh .ci/run

lint=$(linter)

all=$(modules | grep -vx tools/temporal-next) # scripts/standalone.sh checks that one
dirs=$(packaged)
for dir in $all; do
  step 'go mod tidy' "$dir" go mod tidy -diff
done
for dir in $dirs; do
  step 'format' "$dir" "$lint" fmt --diff ./...
  step 'go vet' "$dir" go vet ./...
  step 'lint' "$dir" "$lint" run ./...
done
step 'import rules' . scripts/depguard-selftest.sh "$lint"

db=${GOVULNDB:-https://vuln.go.dev}
if ! have curl; then
  say 'govulncheck: SKIPPED, there is no curl to ask for its database'
elif curl -fsS -m 5 -o /dev/null "$db/index/db.json" 2>/dev/null; then
  vulncheck=$(scripts/tool.sh tools golang.org/x/vuln/cmd/govulncheck)
  for dir in $dirs; do
    step 'govulncheck' "$dir" "$vulncheck" ./...
  done
else
  say "govulncheck: SKIPPED, its database ($db) does not answer here"
fi
finish check
