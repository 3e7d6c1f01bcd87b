/* Proves that no bytes, taken as a safetensors file and as an index, do harm: every tensor that is
 * accepted lies inside the file and can be found and read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/safetensors_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_file(const char *path, size_t size)
{
    tt_safetensors *st = NULL;
    tt_error err = {0};
    tt_status rc = tt_safetensors_open_file(path, &st, &err);
    if (rc != TT_OK) {
        if (err.status != rc || err.message[0] == '\0' || st != NULL)
            abort();
        return;
    }
    for (size_t i = 0; i < tt_safetensors_count(st); i++) {
        const tt_st_tensor *t = tt_safetensors_at(st, i);
        char last;
        if (tt_safetensors_find(st, t->name) != t || t->offset > size ||
            t->bytes > size - t->offset)
            abort();
        if (t->bytes > 0 && tt_safetensors_read(st, t, t->bytes - 1, &last, 1, NULL) != TT_OK)
            abort();
    }
    tt_safetensors_close(&st);
}

static tt_status keep(void *ctx, const char *name, const char *shard, tt_error *err)
{
    if (strchr(shard, '/') != NULL || shard[0] == '.' || shard[0] == '\0' || name[0] == '\0')
        abort();
    return tt_st_table_add(ctx, name, 0) ? TT_OK : tt_fail(err, TT_ERR_NOMEM, "out of memory");
}

static void as_index(int fd, size_t size)
{
    tt_st_names names = {0};
    tt_st_table table = {0};
    tt_error err = {0};
    tt_status rc = tt_st_parse_index(fd, "index", size, &names, keep, &table, &err);
    if (rc != TT_OK && err.message[0] == '\0')
        abort();
    size_t twice = tt_st_table_sort(&table);
    for (size_t i = 0; twice == 0 && i < table.count; i++)
        if (tt_st_table_find(&table, table.slots[i].name) != &table.slots[i])
            abort();
    tt_st_table_free(&table);
    tt_st_names_free(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    as_file(path, size);
    as_index(fd, size);
    close(fd);
    return 0;
}
