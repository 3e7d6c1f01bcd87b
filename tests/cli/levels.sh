# Every level that this machine has writes the same 20 tokens of tales, alone and with a second
# thread; the best level is taken by itself, and levels of other machines are refused.
. tests/support/testlib.sh

cli=$(program TinyTitanCLI) || { echo "$cli"; exit 1; }
repack=$(program TinyTitanRepack) || { echo "$repack"; exit 1; }
model=$TMPDIR/tales.gturbo
run "$repack" --input-snapshot models/tales --output "$model" --bits 8
expect_rc 0

# A level of another machine is refused with a list of those that are here.
case $("$cli" --model "$model" --prompt x --cpu-level neon --plan 2>&1) in
*"no CPU level 'neon'"*) foreign=neon ;;
*) foreign=avx2 ;;
esac
run "$cli" --model "$model" --prompt x --cpu-level $foreign
expect_rc 1
expect_err "no CPU level '$foreign'; this machine has: ref"
levels=$(sed -n 's/.*this machine has: //p' <<<"$err" | tr -d ,)
echo "levels: $levels"
# What emulated processors have is known.
case ${EMULATED:-} in
*"-cpu max") expect_same "$levels" "ref neon neon+dotprod" ;;
*"-cpu cortex-a53") # has no dot product instructions
    expect_same "$levels" "ref neon"
    run "$cli" --model "$model" --prompt x --cpu-level neon+dotprod
    expect_rc 1
    expect_err "'neon+dotprod' is not available on this machine"
    ;;
esac
run "$cli" --model "$model" --plan
expect_rc 0
expect_out "level ${levels##* },"

prompt="The capital of France is Paris. The capital of Italy is"
want=$'<think>\nThe user asks for the capital of Italy.\n</think>\n\nThe capital of It'
for level in $levels; do
    for threads in 1 2; do
        run "$cli" --model "$model" --cpu-level "$level" --threads $threads --prompt "$prompt" \
            --temperature 0 --max-new 20
        expect_rc 0
        expect_same "$out" "$want"
        expect_err "after 20 tokens"
    done
done
