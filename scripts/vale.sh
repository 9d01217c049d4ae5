#!/usr/bin/env bash
# Checks the English of documents and comments by Vale. The words that it refuses are those in bold
# in the last table of docs/glossary.md. VALE names the program.
set -euo pipefail
cd "$(dirname "$0")/.."
terms=.vale/Mooncake/Terms.yml
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
{
  echo "# Written by scripts/vale.sh from docs/glossary.md."
  echo 'extends: substitution'
  echo "message: \"write '%s' instead of '%s' (docs/glossary.md)\""
  echo 'level: error'
  echo 'ignorecase: true'
  echo 'swap:'
  # | word, **refused word** | what to write |
  awk -F'|' '/^## Words that were used/ { on = 1 } on && NF > 3 {
    sub(/^ +/, "", $3); sub(/ +$/, "", $3)
    while (match($2, /\*\*[^*]+\*\*/)) {
      print "  \"" substr($2, RSTART + 2, RLENGTH - 4) "\": \"" $3 "\""
      $2 = substr($2, RSTART + RLENGTH)
    }
  }' docs/glossary.md
} >"$fresh"
if ! cmp -s "$fresh" $terms; then
  cp "$fresh" $terms
  echo "vale: $terms was not what docs/glossary.md says, and is now; commit it" >&2
  exit 1
fi
# Text of others, of releases long ago, and of generated code is left as it is.
git ls-files '*.md' '*.go' ':!*.pb.go' ':!**/testdata/**' ':!CHANGELOG.md' ':!.vale/**' |
  xargs "${VALE:-.tools/vale}" --output=line --no-wrap
