#!/usr/bin/env bash
# Everything that can be said about the code without running it.
. "$(dirname "$0")/lib.sh"

for script in scripts/*.sh .ci/run; do
  step 'shell syntax' . bash -n "$script"
done

say 'linter: looking for the pinned build (built once, in a few minutes)'
lint=$(go -C tools tool -n golangci-lint)

for dir in $(modules); do
  step 'go mod tidy' "$dir" go mod tidy -diff
done
for dir in $(packaged); do
  step 'format' "$dir" "$lint" fmt --diff ./...
  step 'go vet' "$dir" go vet ./...
  step 'lint' "$dir" "$lint" run ./...
done
step 'import rules' . scripts/depguard-selftest.sh "$lint"

db=${GOVULNDB:-https://vuln.go.dev}
if have curl && curl -fsS -m 5 -o /dev/null "$db/index/db.json" 2>/dev/null; then
  vulncheck=$(go -C tools tool -n govulncheck)
  for dir in $(packaged); do
    step 'govulncheck' "$dir" "$vulncheck" ./...
  done
else
  say "govulncheck: SKIPPED, its database ($db) does not answer here"
fi
finish check
