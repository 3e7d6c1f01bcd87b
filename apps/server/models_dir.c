#include "server/models_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/heat_path.h"
#include "server/engine_library.h"
#include "server/model_list.h"
#include "server/reply.h"

#define SUFFIX ".gturbo"

typedef struct entry {
    char path[TT_MAX_PATH], heat[TT_MAX_PATH];
    tt_library_engine *engine;
    char reason[TT_SENTENCE]; /* why it was left out */
} entry;

struct tt_models {
    const tt_server_options *o;
    const tt_server_log *log;
    tt_shelf *shelf;
    tt_server_memory memory;
    tt_model_set *set;
    entry *entries; /* those that are served first, in the order of the set */
    size_t n, served;
};

/* ---- looking for installs ---- */

static bool is_install_name(const char *name)
{
    size_t n = strlen(name), tail = sizeof SUFFIX - 1;
    return name[0] != '.' && n > tail && strcmp(name + n - tail, SUFFIX) == 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

static tt_status find_installs(tt_models *m, const char *dir, tt_error *err)
{
    struct dirent *d;
    DIR *open = opendir(dir);
    if (open == NULL)
        return tt_fail_errno(err, errno, dir, "the folder of --models-dir cannot be read");
    tt_status st = TT_OK;
    while (st == TT_OK && (d = readdir(open)) != NULL) {
        char path[TT_MAX_PATH];
        if (!is_install_name(d->d_name))
            continue;
        st = tt_path_join(path, dir, d->d_name, err);
        if (st != TT_OK || !tt_dir_exists(path))
            continue;
        if (m->n == TT_MODELS)
            st = tt_fail_at(err, TT_ERR_LIMIT, dir, -1, "there are more than %u installs",
                            TT_MODELS);
        else
            memcpy(m->entries[m->n++].path, path, sizeof path);
    }
    closedir(open);
    qsort(m->entries, m->n, sizeof *m->entries, by_path);
    return st;
}

/* ---- opening ---- */

static void leave_out(entry *e, const tt_error *err)
{
    tt_server_options_sentence(err, e->reason);
    tt_library_engine_close(&e->engine);
}

static const char *name_of(const entry *e, tt_engine_info *info)
{
    tt_server_engine seam = tt_library_engine_seam(e->engine);
    seam.ops->describe(seam.self, info);
    return info->model;
}

static tt_status open_entry(tt_models *m, entry *e, const tt_models_places *places, tt_error *err)
{
    tt_library_options lo = {.id = m->o->model_id,
                             .reserved = m->memory.total,
                             .probe = places->probe,
                             .heat = m->o->load.heat_profile,
                             .load = m->o->load,
                             .disk = m->o->disk};
    if (lo.heat == NULL && lo.load.warm_seconds != 0.0f &&
        tt_heat_path(e->path, places->xdg_cache_home, places->home, e->heat))
        lo.heat = e->heat;
    return tt_library_engine_create(e->path, &lo, m->shelf, &e->engine, err);
}

static int use_of(const tt_engine_info *info)
{
    return info->loadable ? 2 : info->max_context > 0 ? 1 : 0;
}

/* Of two with the same name one is left out: whoever asked for it would get either. */
static void leave_out_twin(entry *x, entry *y)
{
    tt_engine_info a, b;
    tt_error err = {.offset = -1};
    if (x->engine == NULL || y->engine == NULL || strcmp(name_of(x, &a), name_of(y, &b)) != 0)
        return;
    entry *less = use_of(&b) > use_of(&a) ? x : y;
    tt_fail(&err, TT_ERR_EXISTS, "its id %s is that of %s too", a.model,
            less == x ? y->path : x->path);
    leave_out(less, &err);
}

static int by_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    tt_engine_info p, q;
    if (x->engine == NULL && y->engine == NULL)
        return by_path(a, b);
    if (x->engine == NULL || y->engine == NULL)
        return x->engine == NULL ? 1 : -1;
    return strcmp(name_of(x, &p), name_of(y, &q));
}

static void reckon_memory(tt_models *m)
{
    tt_install_info info;
    uint64_t most = 0;
    uint32_t vocab = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (tt_install_describe(m->entries[i].path, &info, NULL) != TT_OK)
            continue;
        if (m->n > 1 && info.tokenizer_bytes > most)
            most = info.tokenizer_bytes;
        vocab = info.vocab_size > vocab ? info.vocab_size : vocab;
    }
    m->memory = tt_server_memory_of(m->o->queue_limit, m->o->load.sequences, most, vocab);
}

static tt_status make_set(tt_models *m, tt_error *err)
{
    tt_server_engine seams[TT_MODELS];
    tt_model_set_options o = {.idle_unload = m->o->idle_unload, .log = m->log};
    for (size_t i = 0; i < m->served; i++)
        seams[i] = tt_library_engine_seam(m->entries[i].engine);
    return tt_model_set_create(seams, m->served, &o, &m->set, err);
}

static tt_status open_all(tt_models *m, const tt_models_places *places, tt_error *err)
{
    bool alone = m->o->models_dir == NULL;
    reckon_memory(m);
    for (size_t i = 0; i < m->n; i++) {
        tt_error why = {.offset = -1};
        tt_status st = open_entry(m, &m->entries[i], places, &why);
        if (st != TT_OK && alone) {
            *err = why;
            return st;
        }
        if (st != TT_OK) {
            leave_out(&m->entries[i], &why);
            continue;
        }
        tt_server_engine seam = tt_library_engine_seam(m->entries[i].engine);
        (void)!seam.ops->look(seam.self, NULL); /* what it finds, describe tells */
        for (size_t k = 0; k < i; k++)
            leave_out_twin(&m->entries[k], &m->entries[i]);
    }
    qsort(m->entries, m->n, sizeof *m->entries, by_name);
    while (m->served < m->n && m->entries[m->served].engine != NULL)
        m->served++;
    if (m->served > 0)
        return make_set(m, err);
    return m->n == 0 ? tt_fail_at(err, TT_ERR_NOT_FOUND, m->o->models_dir, -1,
                                  "there is no install (*" SUFFIX ") in this folder; "
                                  "TinyTitanRepack makes one from a checkpoint")
                     : tt_fail_at(err, TT_ERR_FORMAT, m->entries[0].path, -1,
                                  "no install of the folder can be read: %s", m->entries[0].reason);
}

tt_status tt_models_open(const tt_server_options *o, const tt_models_places *places,
                         const tt_server_log *log, tt_models **out, tt_error *err)
{
    tt_error why = {.offset = -1};
    tt_models *m = calloc(1, sizeof *m);
    if (m != NULL)
        m->entries = calloc(TT_MODELS, sizeof *m->entries);
    if (m == NULL || m->entries == NULL) {
        free(m);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the models");
    }
    m->o = o;
    m->log = log;
    tt_status st = tt_shelf_create(&m->shelf, &why);
    if (st == TT_OK && o->models_dir != NULL) {
        st = find_installs(m, o->models_dir, &why);
    } else if (st == TT_OK && !tt_dir_exists(o->model) && !tt_file_exists(o->model)) {
        st = tt_fail_at(&why, TT_ERR_NOT_FOUND, o->model, -1,
                        "no such directory; TinyTitanRepack makes an install from a checkpoint");
    } else if (st == TT_OK) {
        snprintf(m->entries[m->n++].path, TT_MAX_PATH, "%s", o->model);
    }
    if (st == TT_OK)
        st = open_all(m, places, &why);
    if (st != TT_OK) {
        tt_models_close(&m);
        if (err != NULL)
            *err = why;
        return st;
    }
    *out = m;
    return TT_OK;
}

void tt_models_close(tt_models **p)
{
    tt_models *m = p != NULL ? *p : NULL;
    if (m == NULL)
        return;
    tt_model_set_close(&m->set);
    for (size_t i = 0; i < m->n; i++)
        tt_library_engine_close(&m->entries[i].engine);
    tt_shelf_close(&m->shelf);
    free(m->entries);
    free(m);
    *p = NULL;
}

/* ---- questions ---- */

tt_model_set *tt_models_set(tt_models *m)
{
    return m->set;
}

const tt_server_memory *tt_models_memory(const tt_models *m)
{
    return &m->memory;
}

tt_status tt_models_first(tt_models *m, size_t *i, tt_error *err)
{
    *i = m->o->models_dir == NULL ? 0
         : m->o->model == NULL    ? TT_MODEL_NONE
                                  : tt_model_set_find(m->set, m->o->model, NULL);
    if (m->o->model != NULL && *i == TT_MODEL_NONE)
        return tt_fail(err, TT_ERR_NOT_FOUND,
                       "--model %.100s is no id of a model in %s; --catalog lists those there are",
                       m->o->model, m->o->models_dir);
    return TT_OK;
}

const char *tt_models_install(const tt_models *m, size_t i)
{
    return m->entries[i].path;
}

void tt_models_tell(tt_models *m)
{
    tt_engine_info info;
    for (size_t i = 0; i < m->n; i++)
        if (i >= m->served)
            tt_log_say(m->log, "%s is left out: %s", m->entries[i].path, m->entries[i].reason);
        else if (name_of(&m->entries[i], &info), !info.loadable)
            tt_log_say(m->log, "%s cannot be loaded: %s", info.model, info.reason);
}

/* ---- --catalog ---- */

static void text(tt_buf *b, const char *name, const char *value)
{
    tt_buf_printf(b, ",\"%s\":", name);
    tt_reply_write_text(b, value, strlen(value));
}

static void write_json(tt_models *m, tt_buf *b)
{
    tt_engine_info info;
    tt_buf_puts(b, "{\"models\":[");
    for (size_t i = 0; i < m->served; i++) {
        const tt_install_info *f = tt_library_engine_info(m->entries[i].engine);
        (void)name_of(&m->entries[i], &info);
        tt_buf_puts(b, i > 0 ? ",{" : "{");
        tt_model_list_fields(&info, b);
        text(b, "name", f->model_id);
        text(b, "family", f->family);
        text(b, "path", m->entries[i].path);
        tt_buf_printf(
            b, ",\"bits\":%u,\"size_bytes\":%llu,\"memory_bytes\":%llu,\"receipt\":%s}",
            f->weight_bits, (unsigned long long)f->bytes,
            (unsigned long long)(info.plan.total > 0 ? info.plan.total + m->memory.total : 0),
            f->has_receipt ? "true" : "false");
    }
    tt_buf_puts(b, "],\"left_out\":[");
    for (size_t i = m->served; i < m->n; i++) {
        tt_buf_puts(b, i > m->served ? ",{\"path\":" : "{\"path\":");
        tt_reply_write_text(b, m->entries[i].path, strlen(m->entries[i].path));
        text(b, "reason", m->entries[i].reason);
        tt_buf_putc(b, '}');
    }
    tt_buf_puts(b, "]}\n");
}

/* "18.1 GiB" */
static const char *size_text(uint64_t bytes, char out[24])
{
    const double mib = (double)bytes / (double)TT_MIB;
    snprintf(out, 24, mib < 1024 ? "%.1f MiB" : "%.1f GiB", mib < 1024 ? mib : mib / 1024);
    return out;
}

static void write_row(const tt_models *m, const entry *e, int width, tt_buf *b)
{
    tt_engine_info info;
    char size[24], memory[24];
    tt_buf levels;
    const tt_install_info *f = tt_library_engine_info(e->engine);
    tt_buf_init(&levels, 256);
    (void)name_of(e, &info);
    tt_model_list_levels(&info, " ", false, &levels);
    tt_buf_printf(b, "%-*s  %4u  %10s  %8u  %8u  %10s  %-3s  %s\n", width, info.model,
                  f->weight_bits, size_text(f->bytes, size), info.max_context,
                  tt_model_list_most_output(&info),
                  info.plan.total > 0 ? size_text(info.plan.total + m->memory.total, memory) : "-",
                  info.loadable ? "yes" : "no", levels.len > 0 ? levels.data : "-");
    if (info.reason[0] != '\0')
        tt_buf_printf(b, "    %s\n", info.reason);
    tt_buf_free(&levels);
}

static void write_table(tt_models *m, tt_buf *b)
{
    tt_engine_info info;
    int width = 5;
    for (size_t i = 0; i < m->served; i++) {
        int n = (int)strlen(name_of(&m->entries[i], &info));
        width = n > width ? n : width;
    }
    tt_buf_printf(b, "%-*s  %4s  %10s  %8s  %8s  %10s  %s  %s\n", width, "model", "bits", "disk",
                  "context", "output", "memory", "loads", "reasoning");
    for (size_t i = 0; i < m->served; i++)
        write_row(m, &m->entries[i], width, b);
    for (size_t i = m->served; i < m->n; i++)
        tt_buf_printf(b, "%s%s\n    %s\n", i == m->served ? "left out\n" : "", m->entries[i].path,
                      m->entries[i].reason);
}

void tt_models_catalog(tt_models *m, bool table, tt_buf *out)
{
    if (table)
        write_table(m, out);
    else
        write_json(m, out);
}
