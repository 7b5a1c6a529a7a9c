#!/usr/bin/env bash
# Proves that the import rules of .golangci.yml bite. A rule whose glob matches
# no file passes everything in silence, so each one gets a file that breaks it,
# and one that must pass.
. "$(dirname "$0")/lib.sh"

lint=${1:-$(linter)}
scratch
tmp=$(cd -P "$tmp" && pwd)
cp .golangci.yml "$tmp/"
cd "$tmp"
go mod init selftest.invalid 2>/dev/null # so that imports of ours lead nowhere, and in no circle

us=github.com/onceguard/onceguard
sdk=go.opentelemetry.io/otel/sdk/trace

# put writes a file that imports a package; the linter reads the syntax alone,
# so nothing has to exist behind the import.
put() { # put file import
  mkdir -p "$(dirname "$1")"
  printf 'package %s\n\nimport _ "%s"\n' "$(basename "$(dirname "$1")")" "$2" >"$1"
}

bites() { put "$1" "$2"; echo "$1 $2" >>must; }
passes() { put "$1" "$2"; echo "$1 $2" >>may; }

bites guard/bad_core.go github.com/redis/go-redis/v9
bites guard/bad_own.go $us/redisx
bites guard/bad_suite.go $us/guard/storetest
bites guard/bad_testing.go testing
bites guard/internal/deep/bad_deep.go go.uber.org/multierr
bites guard/storetest/bad_suite.go github.com/stretchr/testify/require
for adapter in redisx telemetry temporalx httpx protox; do
  for other in redisx telemetry temporalx httpx; do
    [ $adapter = $other ] || bites $adapter/bad_$other.go $us/$other
  done
  bites $adapter/bad_sdk.go $sdk
  bites $adapter/bad_testing.go testing
  bites $adapter/internal/deep/bad_sdk.go $sdk
done
bites cmd/onceguard/bad_realtest.go $us/internal/realtest
bites cmd/onceguard/bad_suite.go $us/guard/storetest

passes guard/good.go sync
passes guard/good_test.go github.com/stretchr/testify/require
passes guard/storetest/good.go testing
passes guard/storetest/good_guard.go $us/guard
passes redisx/good.go $us/guard
passes redisx/good_test.go $us/guard/storetest
passes telemetry/good.go go.opentelemetry.io/otel/trace
passes telemetry/good_test.go $sdk
passes temporalx/good_test.go $us/redisx
passes internal/realtest/good.go testing
passes examples/guard/good.go $us/redisx

"$lint" run --config .golangci.yml --enable-only depguard --output.text.print-issued-lines=false \
  --max-same-issues 0 --max-issues-per-linter 0 ./... >report 2>log && found=0 || found=$?
[ $found = 1 ] || { cat report log >&2; die "the linter found nothing, or did not run: exit code $found"; }

wrong=''
while read -r file import; do
  grep -q "^$file:.*'$import' is not allowed" report || wrong="$wrong
  passes, and must not: $file imports $import"
done <must
while read -r file import; do
  ! grep -q "^$file:" report || wrong="$wrong
  is reported, and must not be: $file imports $import"
done <may
[ -z "$wrong" ] || die "import rules:$wrong"
echo "import rules: $(wc -l <must | tr -d ' ') forbidden imports reported, $(wc -l <may | tr -d ' ') allowed ones pass"
