#include "base/rates_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"

#define MOST_FILE ((size_t)(256 * TT_KIB))

static json_t *load_root(const char *file)
{
    json_t *root = NULL;
    if (tt_json_load(file, MOST_FILE, &root, NULL) == TT_OK && json_is_object(root))
        return root;
    json_decref(root);
    return json_object();
}

json_t *tt_rates_load(const char *file, const char *list)
{
    json_t *root = load_root(file);
    json_t *entries = json_incref(json_object_get(root, list));
    json_decref(root);
    if (json_is_array(entries))
        return entries;
    json_decref(entries);
    return json_array();
}

tt_status tt_rates_save(const char *file, const char *list, json_t *entries, tt_error *err)
{
    json_t *root = load_root(file);
    int bad = root == NULL || entries == NULL ? -1 : 0;
    if (bad == 0)
        bad = json_object_set_new(root, "format", json_integer(1)) +
              json_object_set(root, list, entries);
    json_decref(entries);
    char *text = bad == 0 ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (text == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for measurements");
    tt_status st = tt_dir_make_above(file, err);
    if (st == TT_OK)
        st = tt_file_publish(file, text, strlen(text), err);
    free(text);
    return st;
}
