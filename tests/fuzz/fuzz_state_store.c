/* Proves that no bytes taken as the index of a directory of prompt state, or as the head of one of
 * its files, do harm, and that what is accepted holds together and is written back as it came. */
#include <stdlib.h>
#include <string.h>

#include "store/store_format.h"
#include "store/store_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static bool keep(void *ctx, tt_store_item *item)
{
    (void)ctx;
    return item->kv_bytes > 0;
}

static void take_head(const uint8_t *data)
{
    tt_store_head h;
    uint8_t again[TT_STORE_HEAD];
    if (tt_store_head_read(data, &h, NULL) != TT_OK)
        return;
    tt_store_head_write(&h, again);
    must(memcmp(again, data, sizeof again) == 0);
}

/* What a table takes of an index it writes as one that it takes whole. */
static void take_index(const tt_store_index *ix)
{
    tt_store_table t, u;
    tt_store_index again;
    tt_buf b;
    must(tt_store_table_init(&t, "state 1\n", 64, NULL) == TT_OK);
    must(tt_store_table_load(&t, ix, keep, NULL, NULL) == TT_OK);
    tt_buf_init(&b, TT_STORE_MAX_INDEX);
    tt_store_table_write(&t, &b);
    must(tt_buf_status(&b, NULL) == TT_OK);
    must(tt_store_index_parse(b.data, b.len, 9, &again, NULL) == TT_OK);
    must(again.n_items == t.n_nodes && again.n_items == t.blocks);
    must(tt_store_table_init(&u, "state 1\n", 64, NULL) == TT_OK);
    must(tt_store_table_load(&u, &again, keep, NULL, NULL) == TT_OK);
    must(u.n_nodes == t.n_nodes && u.bytes == t.bytes && u.checkpoints == t.checkpoints);
    tt_store_table_free(&t);
    tt_store_table_free(&u);
    tt_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_store_index ix;
    tt_error err = {0};
    if (size >= TT_STORE_HEAD)
        take_head(data);
    if (tt_store_index_parse(data, size, 9, &ix, &err) == TT_OK)
        take_index(&ix);
    else
        must(err.message[0] != '\0');
    return 0;
}
