#include "vectors.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/kernels.h"
#include "base/file.h"
#include "mlx_writer.h"
#include "repack/repack.h"

/* ---- installs ---- */

static char root[512];
static char paths[16][600];
static unsigned n_paths;

static const char *temporary_root(void)
{
    if (root[0] == '\0') {
        const char *tmp = getenv("TMPDIR");
        snprintf(root, sizeof root, "%s/tt-fixture-XXXXXX", tmp != NULL ? tmp : "/tmp");
        if (mkdtemp(root) == NULL)
            fail_msg("cannot make %s", root);
    }
    return root;
}

void fixture_remove(void)
{
    if (root[0] != '\0')
        assert_int_equal(tt_dir_remove(root, NULL), TT_OK);
    root[0] = '\0';
    n_paths = 0;
}

static void link_into(const char *dir, const char *from_dir, const char *name)
{
    char from[700], to[700], *real;
    snprintf(from, sizeof from, "%s/%s", from_dir, name);
    snprintf(to, sizeof to, "%s/%s", dir, name);
    real = realpath(from, NULL);
    if (real == NULL || symlink(real, to) != 0)
        fail_msg("cannot link %s to %s", to, from);
    free(real);
}

/* A checkpoint directory with this one's config.json and another's weights. */
static void assemble(char *out, size_t size, const char *checkpoint, const char *weights)
{
    snprintf(out, size, "%s/checkpoint-%u", temporary_root(), n_paths);
    if (mkdir(out, 0755) != 0)
        fail_msg("cannot make %s", out);
    link_into(out, checkpoint, "config.json");
    link_into(out, weights, "model.safetensors");
}

const char *fixture_install(const char *checkpoint, const char *weights, unsigned bits)
{
    char source[600], key[300];
    tt_error err = {0};
    const char *base = strrchr(checkpoint, '/');
    snprintf(key, sizeof key, "%s/%s-%u.gturbo", temporary_root(),
             base != NULL ? base + 1 : checkpoint, bits);
    for (unsigned i = 0; i < n_paths; i++)
        if (strcmp(paths[i], key) == 0)
            return paths[i];
    if (strcmp(checkpoint, "tales-mlx-4bit") == 0) {
        snprintf(source, sizeof source, "%s/tales-mlx-4bit", temporary_root());
        if (tt_mlx_write("models/tales", "tests/vectors/tales-mlx-4bit/config.json", source,
                         &err) != TT_OK)
            fail_msg("%s: %s", err.file, err.message);
    } else if (weights != NULL) {
        assemble(source, sizeof source, checkpoint, weights);
    } else {
        snprintf(source, sizeof source, "%s", checkpoint);
    }
    tt_repack_options o = {.input = source, .output = key};
    tt_repack_report report;
    o.policy.build_bits = strcmp(checkpoint, "tales-mlx-4bit") == 0 ? 0 : bits;
    if (tt_repack_run(&o, NULL, &report, &err) != TT_OK)
        fail_msg("converting %s: %s: %s", source, err.file, err.message);
    if (n_paths == sizeof paths / sizeof paths[0])
        fail_msg("too many fixture installs");
    snprintf(paths[n_paths], sizeof paths[0], "%s", key);
    return paths[n_paths++];
}

tt_model *fixture_model(const char *install, const char *level, unsigned kv_bits, unsigned slots,
                        unsigned threads)
{
    tt_model_options o;
    tt_model *m = NULL;
    tt_error err = {0};
    tt_model_options_default(&o);
    o.cpu_level = level;
    o.kv_bits = kv_bits;
    o.expert_slots = slots;
    o.threads = threads;
    o.verify_reads = true;
    if (tt_model_open(install, &o, NULL, NULL, &m, &err) != TT_OK)
        fail_msg("opening %s on %s: %s: %s", install, level != NULL ? level : "auto", err.file,
                 err.message);
    return m;
}

bool fixture_rounds(const tt_model *m)
{
    const tt_cpu_impl *im = m->be->impl;
    return im->k.dot != NULL;
}

tt_session *fixture_session(tt_model *m)
{
    tt_session *s = NULL;
    tt_error err = {0};
    if (tt_session_create(m, &s, &err) != TT_OK)
        fail_msg("session: %s", err.message);
    return s;
}

/* ---- arrays ---- */

static void *vector_any(const tt_safetensors *st, const char *name, uint64_t d0, uint64_t d1,
                        uint64_t d2, bool f32)
{
    tt_error err = {0};
    const tt_st_tensor *t = tt_safetensors_find(st, name);
    const uint64_t want[3] = {d0, d1, d2};
    if (t == NULL)
        fail_msg("%s has no tensor %s", tt_safetensors_shard_path(st, 0), name);
    if (f32 ? t->dtype != TT_ST_F32 : t->dtype != TT_ST_I32 && t->dtype != TT_ST_U32)
        fail_msg("tensor %s has type %s", name, tt_st_dtype_name(t->dtype));
    for (uint32_t i = 0; i < 3; i++)
        if (want[i] != 0 && (i >= t->rank || t->shape[i] != want[i]))
            fail_msg("tensor %s: dimension %u is not %llu", name, i, (unsigned long long)want[i]);
    void *v = malloc(t->bytes);
    if (tt_safetensors_read(st, t, 0, v, t->bytes, &err) != TT_OK)
        fail_msg("tensor %s: %s", name, err.message);
    return v;
}

float *vector_f32(const tt_safetensors *st, const char *name, uint64_t d0, uint64_t d1, uint64_t d2)
{
    return vector_any(st, name, d0, d1, d2, true);
}

uint32_t *vector_u32(const tt_safetensors *st, const char *name, uint64_t d0, uint64_t d1)
{
    return vector_any(st, name, d0, d1, 0, false);
}

uint32_t *vector_ids(const json_t *obj, const char *key, size_t *n)
{
    const json_t *list = json_object_get(obj, key);
    if (!json_is_array(list))
        fail_msg("no list %s", key);
    *n = json_array_size(list);
    uint32_t *ids = malloc((*n + 1) * sizeof *ids);
    for (size_t i = 0; i < *n; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

double max_abs_diff(const float *a, const float *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst))
            worst = d; /* a NaN difference stays */
    }
    return worst;
}

double max_row_error(const float *a, const float *b, size_t rows, size_t cols)
{
    double worst = 0;
    for (size_t r = 0; r < rows; r++) {
        double num = 0, den = 0;
        for (size_t c = r * cols; c < (r + 1) * cols; c++) {
            double d = (double)a[c] - (double)b[c];
            num += d * d;
            den += (double)b[c] * (double)b[c];
        }
        double rel = sqrt(num) / (sqrt(den) + 1e-30);
        if (!(rel <= worst))
            worst = rel;
    }
    return worst;
}
