/* Proves that parts are handed over in order with the right bytes whatever their sizes, and that
 * the memory for them stays within the window however many there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repack/hub_fetch.h"
#include "support/mini_install.h"
#include "support/tempdir.h"
#include "support/test_hub.h"

#define NAME "model.safetensors"
#define SIZE (4u << 20)

static char dir[512];
static unsigned char *bytes;
static test_hub *server;
static tt_hub *hub;
static tt_hub_file file;
static tt_error err;

static int setup(void **state)
{
    tempdir_make(dir);
    bytes = malloc(SIZE);
    for (uint32_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)((i * 2654435761u) >> 23);
    mini_spew(dir, NAME, bytes, SIZE);
    server = test_hub_start(dir, "a/b");
    tt_hub_options o = {
        .endpoint = test_hub_url(server), .repository = "a/b", .revision = "main", .second_ms = 1};
    file = (tt_hub_file){.name = NAME};
    return tt_hub_open(&o, NULL, &hub, &err) != TT_OK;
}

static int teardown(void **state)
{
    tt_hub_close(&hub);
    test_hub_stop(&server);
    free(bytes);
    tempdir_remove(dir);
    return 0;
}

/* Parts of these lengths by turns, until the file is at its end. */
static size_t cut(const uint64_t *lengths, size_t n, tt_hub_part *parts)
{
    size_t count = 0;
    for (uint64_t at = 0; at < SIZE; count++) {
        uint64_t len = lengths[count % n] < SIZE - at ? lengths[count % n] : SIZE - at;
        parts[count] = (tt_hub_part){&file, at, at + len};
        at += len;
    }
    return count;
}

static void fetch(const uint64_t *lengths, size_t n, uint64_t window, uint64_t most)
{
    tt_hub_part *parts = calloc(SIZE / 1024, sizeof *parts);
    tt_hub_fetch *f = NULL;
    size_t count = cut(lengths, n, parts);
    assert_true(count > 64); /* every place of the window is used more than once */
    assert_int_equal(tt_hub_fetch_start(hub, parts, count, window, &f, &err), TT_OK);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *got = NULL;
        assert_int_equal(tt_hub_fetch_next(f, NULL, NULL, &got, &err), TT_OK);
        assert_memory_equal(got, bytes + parts[i].begin, parts[i].end - parts[i].begin);
        assert_true(tt_hub_fetch_memory(f) <= most);
    }
    tt_hub_fetch_close(&f);
    free(parts);
}

static void memory_stays_within_the_window(void **state)
{
    static const uint64_t same[] = {16384};
    static const uint64_t many[] = {1024, 70000, 16384, 3, 200000, 40000, 1024, 9000};
    fetch(same, 1, 65536, 65536);
    fetch(many, 8, 262144, 262144);
    fetch(same, 1, 1, 16384); /* a window that no part fits into */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_stays_within_the_window, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
