/* Proves the laws of io/reader.h on threads that read around the page cache and through it, with
 * one thread and with many, and small pieces. */
#include "../support/reader_laws.h"

static const struct CMUnitTest tests[] = {LAWS_TABLE};

int main(void)
{
    static const tt_reader_options cases[] = {
        {.kind = TT_READER_POOL, .threads = 1, .piece_bytes = 16384},
        {.kind = TT_READER_POOL, .threads = 5, .piece_bytes = 32768},
        {.kind = TT_READER_POOL},
        {.kind = TT_READER_BUFFERED, .threads = 3, .piece_bytes = 16384},
    };
    int failed = 0;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        laws_options = cases[i];
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
