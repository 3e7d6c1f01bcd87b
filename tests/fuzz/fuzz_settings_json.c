/* Proves over any bytes that settings are changed as they should be or not at all: what fails
 * leaves the text as it was, what succeeds reads as what was put in, and twice is as good as once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connect/settings_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static const char *const path[] = {"a", "b", NULL};

static tt_status change(unsigned what, tt_buf *text, const json_t *value)
{
    if (what == 0)
        return tt_settings_set(text, path, value, "file", NULL);
    if (what == 1)
        return tt_settings_replace(text, path, "k", "ours", value, "file", NULL);
    return tt_settings_remove(text, path, "file", NULL);
}

static void look(unsigned what, const tt_buf *text, const json_t *value)
{
    json_t *tree = NULL;
    must(tt_settings_load(text, "file", &tree, NULL) == TT_OK);
    const json_t *now = json_object_get(json_object_get(tree, "a"), "b");
    if (what == 0)
        must(json_equal(now, value));
    if (what == 1)
        must(json_is_array(now) &&
             json_equal(json_array_get(now, json_array_size(now) - 1), json_array_get(value, 0)));
    json_decref(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_buf text, again;
    if (size < 1 || size > 1 << 16)
        return 0;
    unsigned what = data[0] % 3;
    json_t *value = json_loads("[{\"k\":\"ours\",\"n\":[1.5,{}]}]", 0, NULL);
    tt_buf_init(&text, TT_SETTINGS_MAX);
    tt_buf_init(&again, TT_SETTINGS_MAX);
    tt_buf_append(&text, data + 1, size - 1);
    if (change(what, &text, value) != TT_OK) {
        must(text.len == size - 1 && (size == 1 || memcmp(text.data, data + 1, size - 1) == 0));
    } else {
        look(what, &text, value);
        tt_buf_append(&again, text.data, text.len);
        /* Of a name that stands twice the one before shows once the last is gone. */
        if (what != 2) {
            must(change(what, &again, value) == TT_OK && again.len == text.len &&
                 memcmp(again.data, text.data, text.len) == 0);
        }
    }
    tt_buf_free(&text);
    tt_buf_free(&again);
    json_decref(value);
    return 0;
}
