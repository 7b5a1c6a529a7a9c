#!/usr/bin/env bash
# Tests standalone activities, which the server of tools/temporal lacks, on the
# one of tools/temporal-next. Its first build takes 18 minutes of a processor,
# so this is no part of `make test`.
. "$(dirname "$0")/lib.sh"

scripts/setup.sh
next=tools/temporal-next
lint=$(linter)
ONCEGUARD_TEMPORAL=$(scripts/tool.sh $next "github.com/onceguard/onceguard/$next")
export ONCEGUARD_TEMPORAL ONCEGUARD_REQUIRE_SERVERS=1 ONCEGUARD_STANDALONE=1

step 'go mod tidy' $next go mod tidy -diff
step 'format' $next "$lint" fmt --diff ./...
step 'go vet' $next env CGO_ENABLED=0 go vet ./...
# shellcheck disable=SC2086 # flags
step 'go test' integration go test -race -count=1 -timeout 10m ${TESTFLAGS:-} ./standalone
finish standalone
