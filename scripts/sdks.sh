#!/usr/bin/env bash
# Vets and tests temporalx with the Temporal SDK of go.mod and with the three
# minor versions before it, or with the versions that are given: sdks.sh [v1.50.0 ...].
# It works on copies. Where another requirement of the module asks for a newer SDK
# than the one to test, the table says what was tested.
. "$(dirname "$0")/lib.sh"

sdk=go.temporal.io/sdk
scripts/setup.sh
ONCEGUARD_TEMPORAL=$(scripts/temporal.sh)
export ONCEGUARD_TEMPORAL ONCEGUARD_REQUIRE_SERVERS=1

# backwards prints the newest patch of a minor version and of the three before it.
backwards() {
  local current=$1 minor
  minor=$(printf '%s' "$current" | cut -d. -f2)
  for back in 0 1 2 3; do
    go list -m -versions -f '{{range .Versions}}{{println .}}{{end}}' $sdk |
      grep -E "^v1\.$((minor - back))\.[0-9]+$" | tail -1
  done
}

# copy copies the module as it is here, to a folder.
copy() {
  mkdir -p "$1"
  git -c safe.directory="$root" ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do
      [ ! -f "$file" ] || { mkdir -p "$1/$(dirname "$file")" && cp "$file" "$1/$file"; }
    done
}

# try notes in the table what became of a version.
try() {
  local version=$1 dir=$tmp/$1 tested result=passes leaks=0
  # Older versions leave goroutines of workflows that were reset behind.
  [ "$version" = "$current" ] || leaks=1
  copy "$dir"
  say "$sdk $version"
  (cd "$dir" && go get "$sdk@$version" && go mod tidy) >"$dir.log" 2>&1 || result='no such module graph'
  tested=$(cd "$dir" && go list -m -f '{{.Version}}' $sdk)
  if [ "$result" = passes ]; then
    if ! (cd "$dir" && go vet ./temporalx) >>"$dir.log" 2>&1; then
      result='does not compile'
    elif ! (cd "$dir" && ONCEGUARD_IGNORE_LEAKS=$leaks go test -count=1 -timeout 10m ./temporalx) >>"$dir.log" 2>&1; then
      result='tests fail'
    fi
  fi
  [ "$result" = passes ] || { tail -40 "$dir.log" >&2; failed=yes; }
  printf '| %s | %s | %s |\n' "$version" "$tested" "$result" >>"$tmp/table"
}

scratch
current=$(go list -m -f '{{.Version}}' $sdk)
versions=${*:-$(backwards "$current")}
for version in $versions; do
  try "$version"
done
printf '| SDK asked for | tested with | temporalx |\n|---|---|---|\n'
cat "$tmp/table"
[ -z "$failed" ] || die 'temporalx does not pass with every version'
