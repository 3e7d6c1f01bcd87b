/* Feeds the journal of an installation to its reader: facts that are taken in are those that the
 * form allows, whatever the bytes are. */
#include <stdlib.h>
#include <string.h>

#include "repack/hub_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const tt_hub_state *s)
{
    size_t done = 0;
    for (size_t i = 0; i < s->n_ranges; i++) {
        if (s->ranges[i][0] != '\0' && !tt_sha256_hex_valid(s->ranges[i]))
            abort();
        if ((s->ranges[i][0] == '\0') != (s->sources[i][0] == '\0') ||
            (s->sources[i][0] != '\0' && !tt_sha256_hex_valid(s->sources[i])))
            abort();
        done += s->ranges[i][0] != '\0';
    }
    const char *name;
    json_t *sha;
    json_object_foreach(s->shards, name, sha)
    {
        if (!tt_hub_file_name_valid(name) || !tt_sha256_hex_valid(json_string_value(sha)))
            abort();
    }
    if (done != s->done || (s->n_ranges > 0 && !s->begun))
        abort();
    if (s->begun && (!tt_hub_repository_valid(s->repository) || strlen(s->commit) != 40))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_hub_state s;
    tt_error err;
    size_t good = 0;
    tt_hub_state_init(&s);
    if (tt_journal_parse((const char *)data, size, tt_hub_state_line, &s, &good, &err) == TT_OK &&
        good > size)
        abort();
    check(&s);
    tt_hub_state_free(&s);
    /* The same without checksums, which a fuzzer does not find: each line as it is. */
    tt_hub_state_init(&s);
    char *text = malloc(size + 1), *save = NULL;
    if (text != NULL) {
        memcpy(text, data, size);
        text[size] = '\0';
        for (char *line = strtok_r(text, "\n", &save); line != NULL;
             line = strtok_r(NULL, "\n", &save))
            if (tt_hub_state_line(&s, strlen(line) > 9 ? line + 9 : line, &err) != TT_OK)
                break;
        check(&s);
    }
    free(text);
    tt_hub_state_free(&s);
    return 0;
}
