/* logits: the model's answer to every position of a list of ids, for comparison with an oracle. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/stop.h"
#include "bench/bench.h"
#include "bench/forced_ids.h"
#include "format/safetensors.h"

typedef struct logits_run {
    bench_options o;
    const char *ids_file, *output;
    uint32_t *ids;
    size_t n;
    tt_model *model;
    tt_session *session;
    tt_st_writer *writer;
    size_t row_bytes;
    tt_status status; /* of the writer */
    tt_error err;
} logits_run;

/* A file that is there is replaced, unless that would be a surprise. Opened before anything is
 * computed: a place that cannot be written is told at once. */
static tt_status open_output(logits_run *r, tt_error *err)
{
    struct stat out, ids;
    if (lstat(r->output, &out) == 0) {
        if (S_ISDIR(out.st_mode))
            return tt_fail_at(err, TT_ERR_EXISTS, r->output, -1,
                              "--output is a folder, give the name of a file in it");
        if (!S_ISREG(out.st_mode))
            return tt_fail_at(err, TT_ERR_EXISTS, r->output, -1,
                              "--output is there and no regular file, it will not be replaced");
        if (stat(r->ids_file, &ids) == 0 && ids.st_dev == out.st_dev && ids.st_ino == out.st_ino)
            return tt_fail_at(err, TT_ERR_EXISTS, r->output, -1,
                              "--output is the file of --ids, which would be lost");
    } else if (errno != ENOENT) {
        return tt_fail_errno(err, errno, r->output, "--output cannot be written");
    }
    return tt_st_writer_create(r->output, &r->writer, err);
}

static bool write_row(void *ctx, uint32_t position, const float *logits)
{
    logits_run *r = ctx;
    (void)position; /* rows come in order */
    r->status = tt_st_writer_append(r->writer, logits, r->row_bytes, &r->err);
    return r->status == TT_OK;
}

static tt_status compute(logits_run *r, tt_error *err)
{
    tt_model_info info;
    tt_model_get_info(r->model, &info);
    const uint64_t shape[2] = {r->n, info.vocab_size};
    r->row_bytes = info.vocab_size * sizeof(float);
    TT_TRY(tt_st_writer_declare(r->writer, "logits", TT_ST_F32, 2, shape, err));
    const tt_prefill_options po = {.logits = write_row, .logits_ctx = r, .go_on = bench_goes_on};
    tt_status st = tt_session_sync(r->session, r->ids, r->n, &po, NULL, err);
    if (r->status != TT_OK) { /* the cause of the abort */
        *err = r->err;
        return r->status;
    }
    return st == TT_OK ? tt_st_writer_finish(&r->writer, err) : st;
}

int bench_logits(int argc, char **argv)
{
    logits_run r = {.o.kv = BENCH_KV_32, .o.context_flag = "the number of ids"};
    tt_arg table[] = {
        BENCH_MODEL_ROWS(&r.o, "(32)"),
        TT_OPT_HEADING("Logits:"),
        TT_OPT_STRING("ids", &r.ids_file, "FILE", "JSON list of token ids (required)",
                      .required = true),
        TT_OPT_STRING("output", &r.output, "FILE",
                      "safetensors file to write, array \"logits\", F32 [ids, vocabulary] "
                      "(required)",
                      .required = true),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("logits", "Writes the logits after every position of a list of ids.",
                         table, &r.o, argc, argv);
    if (rc != BENCH_GO_ON)
        return rc;
    tt_error err = {.offset = -1};
    tt_stop_catch(); /* from here on there is a file to remove */
    if (bench_ids_read(r.ids_file, &r.ids, &r.n, &err) != TT_OK || open_output(&r, &err) != TT_OK)
        rc = bench_fail(&err);
    if (rc == BENCH_GO_ON)
        rc = bench_open(&r.o, (uint32_t)r.n, &r.model, &r.session);
    if (rc == BENCH_GO_ON && compute(&r, &err) != TT_OK)
        rc = bench_fail(&err);
    if (rc == BENCH_GO_ON) {
        json_t *obj = bench_context("logits", r.model);
        bench_set(obj, "tokens", json_integer((json_int_t)r.n));
        bench_set(obj, "vocab_size", json_integer((json_int_t)(r.row_bytes / sizeof(float))));
        bench_set(obj, "output", json_string(r.output));
        printf("%zu rows of %zu logits in %s\n", r.n, r.row_bytes / sizeof(float), r.output);
        rc = bench_finish(&r.o, obj);
    }
    tt_st_writer_discard(&r.writer);
    tt_session_close(&r.session);
    tt_model_close(&r.model);
    free(r.ids);
    return rc;
}
