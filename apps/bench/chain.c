/* chain: the ids that a synthetic install was made for, as a list that other programs can read. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/forced_ids.h"

int bench_chain(int argc, char **argv)
{
    bench_options o = {0};
    uint64_t seed = 0;
    uint32_t tokens = 64;
    uint32_t *ids = NULL;
    char words[40] = "chain";
    tt_arg table[] = {
        TT_OPT_HEADING("Chain:"),
        TT_OPT_STRING("model", &o.model, "DIR", "synthetic install (required)", .required = true),
        TT_OPT_U64("seed", &seed, "N", 0, 0, "where the chain starts, unless given the install's"),
        TT_OPT_U32("tokens", &tokens, "N", 1, TT_MAX_CONTEXT, "length (64)"),
        BENCH_OTHER_ROWS(&o),
        TT_OPT_END,
    };
    int rc = bench_parse("chain",
                         "Prints ids that --forced-ids chain stands for, as a JSON list on one "
                         "line.",
                         table, &o, argc, argv);
    if (rc != BENCH_GO_ON)
        return rc;
    tt_error err = {0};
    if (tt_args_given(table, "seed"))
        snprintf(words, sizeof words, "chain:%llu", (unsigned long long)seed);
    if (bench_ids_forced(words, o.model, tokens, &ids, &err) != TT_OK)
        return bench_fail(&err);
    putchar('[');
    for (uint32_t i = 0; i < tokens; i++)
        printf("%s%u", i > 0 ? "," : "", ids[i]);
    printf("]\n");
    free(ids);
    o.json = false; /* the list is JSON already */
    return bench_finish(&o, NULL);
}
