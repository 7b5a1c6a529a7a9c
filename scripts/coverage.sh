#!/usr/bin/env bash
# Prints the statement coverage of guard and redisx by the tests of both, and
# fails below 90 %.
. "$(dirname "$0")/lib.sh"

least=90.0
scratch
ONCEGUARD_REQUIRE_SERVERS=1 go test -coverpkg ./guard,./redisx -coverprofile "$tmp/profile" ./guard/... ./redisx
total=$(go tool cover -func "$tmp/profile" | awk '/^total:/ { sub("%", "", $3); print $3 }')
echo "statements of guard and redisx: $total %"
awk -v total="$total" -v least=$least 'BEGIN { exit !(total >= least) }' || die "coverage is under $least %"
