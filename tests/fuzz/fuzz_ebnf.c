/* Compiles the input as a grammar: any text ends in an automaton within its limits or in an error,
 * and an automaton takes the input's own bytes in one piece as it takes them one by one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "grammar/compile.h"
#include "grammar/matcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    tt_automaton m = {0};
    tt_gmatcher a = {0}, b = {0};
    tt_error err;
    if (tt_compile_ebnf(text, size, &m, &err) != TT_OK)
        return 0;
    if (m.n_states > TT_AUTOMATON_STATES || m.n_edges > TT_AUTOMATON_EDGES ||
        tt_gmatcher_init(&a, &m, m.starts.plain, &err) != TT_OK ||
        tt_gmatcher_init(&b, &m, m.starts.plain, &err) != TT_OK)
        abort();
    if (!tt_gmatcher_complete(&a) && !tt_gmatcher_goes_on(&a))
        abort(); /* a blind alley */
    size_t n = 0;
    while (n < size && tt_gmatcher_push(&a, text + n, 1) == 1)
        n++;
    if (tt_gmatcher_push(&b, text, n) != n || tt_gmatcher_complete(&a) != tt_gmatcher_complete(&b))
        abort();
    tt_gmatcher_free(&a);
    tt_gmatcher_free(&b);
    tt_automaton_free(&m);
    return 0;
}
