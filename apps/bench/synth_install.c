/* Writes a synthetic model as a verified install: a job a file, taken by threads. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/pool.h"
#include "bench/synth.h"
#include "bench/synth_out.h"
#include "bench/synth_progress.h"
#include "bench/synth_text.h"
#include "format/install_layout.h"
#include "format/install_writer.h"
#include "format/quant.h"

#define WRITER "TinyTitanBench " TT_VERSION_STRING
#define BLOCK  ((uint64_t)2 * TT_MIB) /* bytes of rows made at a time */

/* A panel of the longest rows fits. */
_Static_assert((uint64_t)2 * TT_MIB >= (uint64_t)TT_MAX_HIDDEN * TT_PANEL, "blocks hold a panel");

#define MOST_THREADS 64u

typedef struct job {
    char rel[64];
    synth_written written;
} job;

typedef struct work {
    synth_model *m;
    synth_dir dir;
    tt_index index;
    char index_sha256[TT_SHA256_HEX];
    uint32_t *crc; /* [L * E] */
    job *jobs;     /* 0: the weights; 1 + l: experts of layer l; then the n-gram table */
    uint32_t expert_jobs;
    uint32_t n_jobs;
    _Atomic uint32_t next;
    _Atomic uint64_t done;
    uint64_t total;
    const volatile int *stop;
    _Atomic int halt; /* stop, or a job failed */
    pthread_mutex_t lock;
    tt_status failed; /* first failure; under lock, like the error */
    tt_error error;
} work;

/* ---- jobs ---- */

static tt_status write_part(work *w, synth_file *f, const synth_tensor *t, unsigned part,
                            unsigned char *buf, tt_error *err)
{
    uint32_t bits = tt_dtype_bits(t->dtype);
    uint64_t cols = t->cols > 0 ? t->cols : 1;
    uint64_t words = bits > 0 ? cols * bits / 8 : tt_dtype_bytes(t->dtype) * cols;
    uint64_t row_bytes = part == 0 ? words : tt_quant_row_scales_bytes(cols);
    uint64_t step = bits > 0 ? BLOCK / words / TT_PANEL * TT_PANEL : BLOCK / words;
    uint16_t *scales = (uint16_t *)(void *)buf, *biases = scales + BLOCK / 2;
    for (uint64_t row = 0; row < t->rows; row += step) {
        uint64_t n = t->rows - row < step ? t->rows - row : step;
        uint64_t stored = bits > 0 ? tt_quant_stored_rows(n) : n;
        if (part == 0)
            synth_rows(w->m, t, t->dtype, row, n, buf);
        else
            synth_scales(w->m, t, row, n, scales, biases);
        TT_TRY(synth_file_append(f, part == 2 ? (void *)biases : buf, stored * row_bytes, err));
    }
    return TT_OK;
}

static tt_status write_tensors(work *w, synth_file *f, unsigned char *buf, tt_error *err)
{
    for (size_t i = 0; i < w->index.count; i++) {
        const tt_index_entry *e = &w->index.entries[i];
        const synth_tensor *t = &w->m->tensors[i];
        TT_TRY(synth_file_pad(f, e->offset, err));
        TT_TRY(write_part(w, f, t, 0, buf, err));
        if (e->scales_bytes == 0)
            continue;
        TT_TRY(synth_file_pad(f, e->scales_offset, err));
        TT_TRY(write_part(w, f, t, 1, buf, err));
        TT_TRY(synth_file_pad(f, e->biases_offset, err));
        TT_TRY(write_part(w, f, t, 2, buf, err));
    }
    return synth_file_pad(f, w->index.file_bytes, err);
}

static tt_status write_weights(work *w, synth_file *f, tt_error *err)
{
    void *index = NULL;
    unsigned char *buf = malloc(2 * BLOCK);
    tt_status st = buf != NULL ? TT_OK : tt_fail(err, TT_ERR_NOMEM, "out of memory for rows");
    if (st == TT_OK)
        st = tt_index_encode(&w->index, &index, err);
    if (st == TT_OK)
        st = tt_sha256_of(index, w->index.index_bytes, w->index_sha256, err);
    if (st == TT_OK)
        st = synth_file_append(f, index, w->index.index_bytes, err);
    if (st == TT_OK)
        st = write_tensors(w, f, buf, err);
    free(index);
    free(buf);
    return st;
}

static void make_mat(const work *w, const tt_expert_mat *mat, const synth_tensor *t,
                     unsigned char *expert)
{
    synth_rows(w->m, t, mat->dtype, 0, mat->rows, expert + mat->words_offset);
    if (mat->scales_bytes > 0)
        synth_scales(w->m, t, 0, mat->rows, (uint16_t *)(void *)(expert + mat->scales_offset),
                     (uint16_t *)(void *)(expert + mat->biases_offset));
}

static tt_status write_experts(work *w, uint32_t layer, synth_file *f, tt_error *err)
{
    const tt_expert_layout *l = &w->m->experts;
    const tt_expert_mat *mats[] = {&l->gate, &l->up, &l->down};
    unsigned char *expert = aligned_alloc(TT_TENSOR_ALIGN, l->stride);
    if (expert == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for an expert");
    memset(expert, 0, l->stride);
    tt_status st = TT_OK;
    for (uint32_t e = 0; e < l->n_experts && st == TT_OK; e++) {
        for (unsigned i = 0; i < 3; i++) {
            synth_tensor t;
            synth_expert(w->m, layer, e, i, &t);
            make_mat(w, mats[i], &t, expert);
        }
        w->crc[(size_t)layer * l->n_experts + e] = tt_crc32c(0, expert, l->payload_bytes);
        st = synth_file_append(f, expert, l->stride, err);
    }
    free(expert);
    return st;
}

static tt_status write_ngrams(work *w, synth_file *f, tt_error *err)
{
    unsigned char *buf = malloc(BLOCK);
    tt_status st = buf != NULL ? write_part(w, f, &w->m->table, 0, buf, err)
                               : tt_fail(err, TT_ERR_NOMEM, "out of memory for rows");
    free(buf);
    return st == TT_OK ? synth_file_pad(f, w->m->ngrams.file_bytes, err) : st;
}

static tt_status run_job(work *w, uint32_t i, tt_error *err)
{
    char path[TT_MAX_PATH];
    synth_file f;
    TT_TRY(tt_path_join(path, w->dir.partial, w->jobs[i].rel, err));
    TT_TRY(synth_file_create(&f, path, &w->done, &w->halt, err));
    tt_status st = i == 0                ? write_weights(w, &f, err)
                   : i <= w->expert_jobs ? write_experts(w, i - 1, &f, err)
                                         : write_ngrams(w, &f, err);
    if (st == TT_OK)
        st = synth_file_finish(&f, &w->jobs[i].written, err);
    synth_file_drop(&f);
    return st;
}

static void *worker(void *ctx)
{
    work *w = ctx;
    for (uint32_t i = atomic_fetch_add(&w->next, 1); i < w->n_jobs && !w->halt;
         i = atomic_fetch_add(&w->next, 1)) {
        tt_error e = {0};
        tt_status st = run_job(w, i, &e);
        if (st == TT_OK)
            continue;
        pthread_mutex_lock(&w->lock);
        if (w->failed == TT_OK) {
            w->failed = st;
            w->error = e;
        }
        pthread_mutex_unlock(&w->lock);
        w->halt = 1;
    }
    return NULL;
}

/* Threads work, this one shows how far they are. */
static tt_status run_jobs(work *w, tt_error *err)
{
    pthread_t thread[MOST_THREADS];
    uint32_t n = w->m->o.threads > 0 ? w->m->o.threads : tt_physical_cores(), started = 0;
    n = n < MOST_THREADS ? n : MOST_THREADS;
    synth_progress p;
    synth_progress_init(&p, "writing", w->total, w->m->o.quiet);
    while (started < n && pthread_create(&thread[started], NULL, worker, w) == 0)
        started++;
    if (started == 0)
        return tt_fail_errno(err, EAGAIN, NULL, "cannot start a thread");
    for (uint32_t i = 0; i < started; i++)
        while (!synth_progress_join(thread[i])) {
            w->halt |= *w->stop;
            synth_progress_show(&p, atomic_load(&w->done));
        }
    synth_progress_end(&p);
    if (w->failed == TT_OK && *w->stop)
        w->failed = tt_fail(&w->error, TT_ERR_ABORTED, "stopped");
    if (w->failed != TT_OK && err != NULL)
        *err = w->error;
    return w->failed;
}

/* ---- the whole ---- */

static tt_status make_index(work *w, tt_error *err)
{
    synth_model *m = w->m;
    w->index.entries = calloc(m->n_tensors, sizeof *w->index.entries);
    if (w->index.entries == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the index");
    w->index.count = m->n_tensors;
    for (size_t i = 0; i < m->n_tensors; i++) {
        const synth_tensor *t = &m->tensors[i];
        w->index.entries[i] = (tt_index_entry){.name = t->name,
                                               .dtype = t->dtype,
                                               .rank = t->cols > 0 ? 2 : 1,
                                               .shape = {t->rows, t->cols}};
    }
    return tt_index_layout(&w->index, TT_WEIGHTS_NAME, err);
}

static tt_status prepare(work *w, tt_error *err)
{
    const tt_expert_layout *l = &w->m->experts;
    uint32_t L = l->n_experts > 0 ? w->m->arch.n_layers : 0;
    TT_TRY(make_index(w, err));
    w->expert_jobs = L;
    w->n_jobs = 1 + L + (w->m->ngrams.rows > 0);
    w->jobs = calloc(w->n_jobs, sizeof *w->jobs);
    w->crc = calloc((size_t)L * l->n_experts + 1, sizeof *w->crc);
    if (w->jobs == NULL || w->crc == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u files", w->n_jobs);
    snprintf(w->jobs[0].rel, sizeof w->jobs[0].rel, "%s", TT_WEIGHTS_NAME);
    for (uint32_t i = 0; i < L; i++)
        tt_expert_file_name(w->jobs[1 + i].rel, i, false);
    if (w->m->ngrams.rows > 0)
        snprintf(w->jobs[1 + L].rel, sizeof w->jobs[1 + L].rel, "%s", TT_NGRAM_NAME);
    w->total = w->index.file_bytes + L * l->n_experts * l->stride + w->m->ngrams.file_bytes;
    TT_TRY(synth_dir_init(&w->dir, w->m->o.output, TT_MANIFEST_NAME, w->m->o.overwrite, err));
    return synth_dir_space(&w->dir, w->total + 16 * TT_MIB, err);
}

static tt_status write_crc(work *w, synth_written *out, tt_error *err)
{
    const tt_expert_layout *l = &w->m->experts;
    char path[TT_MAX_PATH];
    void *bytes = NULL;
    size_t len = 0;
    synth_file f;
    TT_TRY(tt_path_join(path, w->dir.partial, TT_CRC_NAME, err));
    TT_TRY(tt_crc_table_encode(w->crc, l->n_experts, w->m->arch.n_layers, 0, &bytes, &len, err));
    tt_status st = synth_file_create(&f, path, NULL, NULL, err);
    if (st == TT_OK) {
        st = synth_file_append(&f, bytes, len, err);
        if (st == TT_OK)
            st = synth_file_finish(&f, out, err);
        synth_file_drop(&f);
    }
    free(bytes);
    return st;
}

static json_t *source_of(const synth_model *m)
{
    char digest[TT_SHA256_HEX];
    if (tt_sha256_of(m->parameters, strlen(m->parameters), digest, NULL) != TT_OK)
        return NULL;
    return json_pack("{s:s, s:s, s:s, s:{}}", "repository", SYNTH_SOURCE, "revision", m->parameters,
                     "index_sha256", digest, "files");
}

static int by_rel(const void *a, const void *b)
{
    return strcmp(((const tt_install_file *)a)->rel, ((const tt_install_file *)b)->rel);
}

/* The receipt first: without a manifest it is no install. */
static tt_status write_manifest(work *w, const tt_install_file *files, size_t n, tt_error *err)
{
    const synth_model *m = w->m;
    char path[TT_MAX_PATH], digest[TT_SHA256_HEX], now[32], *text = NULL, *receipt = NULL;
    size_t len = 0, receipt_len = 0;
    time_t t = time(NULL);
    struct tm tm;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    json_t *source = source_of(m);
    tt_manifest_content c = {.writer = WRITER,
                             .model_id = m->model_id,
                             .arch = &m->arch,
                             .source = source,
                             .weights = &w->index,
                             .experts = m->experts.n_experts > 0 ? &m->experts : NULL,
                             .ngrams = m->ngrams.rows > 0 ? &m->ngrams : NULL,
                             .tokenizer = m->o.tokenizer != NULL,
                             .files = files,
                             .n_files = n};
    strcpy(c.weights_index_sha256, w->index_sha256);
    tt_status st = source == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for the manifest")
                                  : tt_manifest_encode(&c, &text, &len, err);
    json_decref(source);
    if (st == TT_OK)
        st = tt_sha256_of(text, len, digest, err);
    if (st == TT_OK)
        st = tt_receipt_encode(digest, w->dir.path, files, n, WRITER, now, &receipt, &receipt_len,
                               err);
    if (st == TT_OK)
        st = tt_path_join(path, w->dir.partial, TT_RECEIPT_NAME, err);
    if (st == TT_OK)
        st = tt_file_publish(path, receipt, receipt_len, err);
    if (st == TT_OK)
        st = tt_path_join(path, w->dir.partial, TT_MANIFEST_NAME, err);
    if (st == TT_OK)
        st = tt_file_publish(path, text, len, err);
    free(text);
    free(receipt);
    return st;
}

static tt_status write_all(work *w, tt_error *err)
{
    char experts[TT_MAX_PATH];
    synth_written crc;
    synth_text text = {0};
    size_t n = w->n_jobs;
    TT_TRY(synth_dir_create(&w->dir, err));
    TT_TRY(tt_path_join(experts, w->dir.partial, TT_EXPERTS_DIR, err));
    if (w->expert_jobs > 0)
        TT_TRY(tt_dir_make(experts, err));
    if (w->m->o.tokenizer != NULL)
        TT_TRY(synth_write_text(&text, w->m->o.tokenizer, w->dir.partial, TT_TOKENIZER_DIR,
                                w->m->arch.vocab_size, err));
    TT_TRY(run_jobs(w, err));
    if (w->expert_jobs > 0) {
        TT_TRY(write_crc(w, &crc, err));
        TT_TRY(tt_dir_sync(experts, err));
    }
    tt_install_file *files = calloc(n + 1 + text.n, sizeof *files);
    if (files == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu files", n);
    for (size_t i = 0; i < n; i++) {
        const synth_written *is = &w->jobs[i].written;
        files[i] = (tt_install_file){w->jobs[i].rel, is->size, is->sha256, is->mtime_ns};
    }
    if (w->expert_jobs > 0)
        files[n++] = (tt_install_file){TT_CRC_NAME, crc.size, crc.sha256, crc.mtime_ns};
    for (size_t i = 0; i < text.n; i++) {
        const synth_written *is = &text.written[i];
        files[n++] = (tt_install_file){text.rel[i], is->size, is->sha256, is->mtime_ns};
    }
    qsort(files, n, sizeof *files, by_rel);
    tt_status st = write_manifest(w, files, n, err);
    free(files);
    return st == TT_OK ? synth_dir_publish(&w->dir, err) : st;
}

tt_status synth_write_install(synth_model *m, const volatile int *stop, uint64_t *bytes,
                              tt_error *err)
{
    work w = {.m = m, .stop = stop, .dir.lock = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
    tt_status st = prepare(&w, err);
    if (st == TT_OK)
        st = write_all(&w, err);
    if (st == TT_OK)
        *bytes = w.total;
    synth_dir_drop(&w.dir);
    free(w.index.entries);
    free(w.jobs);
    free(w.crc);
    return st;
}
