/* io: how fast the disk gives experts, by reader, depth and piece size.
 *
 * Every cell of the table is measured in ROUNDS slices, by turns with the others, because disks
 * drift within minutes. Nothing is written. The page cache is left alone, but the buffered reader
 * goes through it and is as fast as memory where pages were left by others. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/stop.h"
#include "bench/bench.h"
#include "format/install.h"
#include "io/reader_probe.h"

#define ROUNDS        3u
#define DEFAULT_READ  (2 * TT_MIB)
#define MOST_FILES    4096u
#define MOST_IN_TABLE 128u

static const char *const methods[] = {"uring", "pool", "buffered"};
static const uint32_t depths[] = {1, 4, 8, 16, 32, 64};
static const uint32_t pieces[] = {128 << 10, 256 << 10, 512 << 10, 1024 << 10};

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof *(a)))

typedef struct cell {
    uint32_t method, depth, piece;
    uint64_t bytes, reads;
    double seconds, rate[ROUNDS];
} cell;

typedef struct disk_run {
    bench_options o;
    const char *dir;
    uint32_t seconds;
    uint64_t read_bytes;
    char **paths;
    uint32_t n;
    cell cells[MOST_IN_TABLE];
    uint32_t n_cells;
    char refused[COUNT(methods)][200];
} disk_run;

/* ---- what is read ---- */

static tt_status add_path(disk_run *r, const char *path, tt_error *err)
{
    if (r->n == MOST_FILES)
        return tt_fail(err, TT_ERR_LIMIT, "more than %u files to read", MOST_FILES);
    r->paths[r->n] = strdup(path);
    if (r->paths[r->n] == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for paths");
    r->n++;
    return TT_OK;
}

static tt_status find_experts(disk_run *r, tt_error *err)
{
    tt_install *in = NULL;
    TT_TRY(tt_install_open(r->o.model, TT_INSTALL_NO_HASH, NULL, NULL, &in, err));
    const tt_expert_layout *layout = tt_install_expert_layout(in);
    tt_status st = TT_OK;
    if (layout == NULL)
        st = tt_fail_at(err, TT_ERR_INVALID, r->o.model, -1,
                        "a dense model reads no experts; give --dir DIR to measure its disk");
    for (uint32_t l = 0; st == TT_OK && l < tt_install_arch(in)->n_layers; l++)
        st = add_path(r, tt_install_expert_path(in, l, false), err);
    if (st == TT_OK && r->read_bytes == 0)
        r->read_bytes = layout->stride;
    tt_install_close(&in);
    return st;
}

/* Regular files that hold a read at least. */
static tt_status find_files(disk_run *r, tt_error *err)
{
    if (r->read_bytes == 0)
        r->read_bytes = DEFAULT_READ;
    DIR *d = opendir(r->dir);
    if (d == NULL)
        return tt_fail_errno(err, errno, r->dir, "cannot open directory %s", r->dir);
    tt_status st = TT_OK;
    for (struct dirent *e = readdir(d); st == TT_OK && e != NULL; e = readdir(d)) {
        char path[TT_MAX_PATH];
        struct stat sb;
        st = tt_path_join(path, r->dir, e->d_name, err);
        if (st == TT_OK && stat(path, &sb) == 0 && S_ISREG(sb.st_mode) &&
            (uint64_t)sb.st_size >= r->read_bytes)
            st = add_path(r, path, err);
    }
    closedir(d);
    if (st == TT_OK && r->n == 0)
        st = tt_fail_at(err, TT_ERR_INVALID, r->dir, -1,
                        "no file in %s has the %llu bytes of one read", r->dir,
                        (unsigned long long)r->read_bytes);
    return st;
}

/* ---- the table ---- */

static void lay_out(disk_run *r)
{
    for (uint32_t m = 0; m < COUNT(methods); m++)
        for (uint32_t d = 0; d < COUNT(depths); d++)
            for (uint32_t p = 0; p < COUNT(pieces); p++) {
                bool depth_fits = r->o.io_depth == 0 ? m == 0 || depths[d] <= 16 : d == 0;
                bool piece_fits = r->o.io_piece == 0 || p == 0;
                if ((r->o.reader > 0 && (uint32_t)r->o.reader != m + 1) || !depth_fits ||
                    !piece_fits)
                    continue;
                r->cells[r->n_cells++] =
                    (cell){.method = m,
                           .depth = r->o.io_depth > 0 ? r->o.io_depth : depths[d],
                           .piece = r->o.io_piece > 0 ? (uint32_t)r->o.io_piece : pieces[p]};
            }
}

/* A reader that does not work here leaves its rows out and says why. */
static tt_status measure_part(disk_run *r, cell *c, double seconds, tt_error *err)
{
    tt_measure_options mo = {.reader = {.depth = c->depth, .piece_bytes = c->piece},
                             .read_bytes = r->read_bytes,
                             .seconds = seconds,
                             .seed = 1000 * c->reads + (uint64_t)(c - r->cells) + 1};
    tt_measurement m;
    tt_error e = {0};
    if (r->refused[c->method][0] != '\0')
        return TT_OK;
    mo.reader.threads = c->depth < TT_IO_MAX_THREADS ? c->depth : TT_IO_MAX_THREADS;
    TT_TRY(tt_reader_kind_parse(methods[c->method], &mo.reader.kind, err));
    tt_status st = tt_reader_measure((const char *const *)r->paths, r->n, &mo, &m, &e);
    if (st == TT_ERR_UNSUPPORTED) {
        snprintf(r->refused[c->method], sizeof r->refused[0], "%.199s", e.message);
        return TT_OK;
    }
    if (st != TT_OK) {
        if (err != NULL)
            *err = e;
        return st;
    }
    c->bytes += m.bytes;
    c->reads += m.reads;
    c->seconds += m.seconds;
    return TT_OK;
}

/* In parts of a second, between which a signal is seen. */
static tt_status measure_cell(disk_run *r, cell *c, uint32_t round, double slice, tt_error *err)
{
    uint64_t bytes = c->bytes;
    double seconds = c->seconds;
    uint32_t parts = (uint32_t)slice + 1;
    for (uint32_t i = 0; i < parts; i++) {
        if (!bench_goes_on(NULL))
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
        TT_TRY(measure_part(r, c, slice / parts, err));
    }
    if (c->seconds > seconds)
        c->rate[round] = (double)(c->bytes - bytes) / (c->seconds - seconds);
    return TT_OK;
}

static tt_status measure_all(disk_run *r, tt_error *err)
{
    double slice = (double)r->seconds / ((double)r->n_cells * ROUNDS);
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < r->n_cells; i++)
            TT_TRY(measure_cell(r, &r->cells[i], round, slice, err));
    return TT_OK;
}

/* ---- what comes out ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static json_t *cell_json(const cell *c)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "reader", methods[c->method],
                     "depth", (json_int_t)c->depth, "piece_bytes", (json_int_t)c->piece, "bytes",
                     (json_int_t)c->bytes, "reads", (json_int_t)c->reads, "seconds", c->seconds,
                     "median", c->rate[ROUNDS / 2], "min", c->rate[0], "max", c->rate[ROUNDS - 1]);
}

static int report(disk_run *r)
{
    json_t *obj = json_object(), *cells = json_array(), *refused = json_object();
    const cell *best = NULL;
    printf("%u files, reads of %.1f KiB\n%-9s %6s %9s %10s %10s %10s\n", r->n,
           (double)r->read_bytes / (double)TT_KIB, "reader", "depth", "piece KiB", "GB/s", "min",
           "max");
    for (uint32_t i = 0; i < r->n_cells; i++) {
        cell *c = &r->cells[i];
        if (c->bytes == 0)
            continue;
        qsort(c->rate, ROUNDS, sizeof c->rate[0], ascending);
        printf("%-9s %6u %9u %10.3f %10.3f %10.3f\n", methods[c->method], c->depth,
               (unsigned)(c->piece / TT_KIB), c->rate[ROUNDS / 2] / 1e9, c->rate[0] / 1e9,
               c->rate[ROUNDS - 1] / 1e9);
        json_array_append_new(cells, cell_json(c));
        if (best == NULL || c->rate[ROUNDS / 2] > best->rate[ROUNDS / 2])
            best = c;
    }
    for (uint32_t m = 0; m < COUNT(methods); m++)
        if (r->refused[m][0] != '\0') {
            printf("%-9s not here: %s\n", methods[m], r->refused[m]);
            bench_set(refused, methods[m], json_string(r->refused[m]));
        }
    if (best != NULL)
        printf("best: %s, depth %u, pieces of %u KiB, %.3f GB/s\n", methods[best->method],
               best->depth, (unsigned)(best->piece / TT_KIB), best->rate[ROUNDS / 2] / 1e9);
    bench_set(obj, "command", json_string("io"));
    bench_set(obj, "version", json_string(tt_version()));
    bench_set(obj, "files", json_integer(r->n));
    bench_set(obj, "read_bytes", json_integer((json_int_t)r->read_bytes));
    bench_set(obj, "unit", json_string("bytes/s"));
    bench_set(obj, "best", best != NULL ? cell_json(best) : json_null());
    bench_set(obj, "cells", cells);
    bench_set(obj, "refused", refused);
    return bench_finish(&r->o, obj);
}

static int check(const disk_run *r)
{
    const char *wrong = (r->o.model != NULL) == (r->dir != NULL)
                            ? "one of --model DIR and --dir DIR is needed"
                        : r->o.io_piece % TT_IO_ALIGN != 0 || r->read_bytes % TT_IO_ALIGN != 0
                            ? "--io-piece and --read-size must be multiples of 4096"
                            : NULL;
    tt_error err = {.offset = -1};
    if (wrong == NULL)
        return BENCH_GO_ON;
    (void)!tt_fail(&err, TT_ERR_INVALID, "%s", wrong);
    return bench_usage(&err);
}

int bench_io(int argc, char **argv)
{
    disk_run r = {.seconds = 20};
    tt_arg table[] = {
        TT_OPT_HEADING("What to read (one of them):"),
        TT_OPT_STRING("model", &r.o.model, "DIR", "the experts of an install"),
        TT_OPT_STRING("dir", &r.dir, "DIR", "the files in DIR that are large enough"),
        TT_OPT_HEADING("How:"),
        TT_OPT_U32("seconds", &r.seconds, "N", 1, 3600, "for all of the table (20)"),
        TT_OPT_SIZE("read-size", &r.read_bytes, "SIZE", 4096, 64 * TT_MIB,
                    "bytes of one read (an expert of the install; 2M with --dir)"),
        TT_OPT_ENUM("reader", &r.o.reader, bench_readers, "only this one (auto: all of them)"),
        TT_OPT_U32("io-depth", &r.o.io_depth, "N", 1, 256, "only this many pieces in flight"),
        TT_OPT_SIZE("io-piece", &r.o.io_piece, "SIZE", 16 * TT_KIB, 16 * TT_MIB,
                    "only pieces of this size"),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("io",
                         "Reads experts from random places, around the page cache, and writes "
                         "nothing.",
                         table, &r.o, argc, argv);
    if (rc == BENCH_GO_ON)
        rc = check(&r);
    if (rc != BENCH_GO_ON)
        return rc;
    tt_error err = {.offset = -1};
    tt_stop_catch();
    r.paths = calloc(MOST_FILES, sizeof *r.paths);
    tt_status st = r.paths == NULL     ? tt_fail(&err, TT_ERR_NOMEM, "out of memory for paths")
                   : r.o.model != NULL ? find_experts(&r, &err)
                                       : find_files(&r, &err);
    lay_out(&r);
    if (st == TT_OK)
        st = measure_all(&r, &err);
    rc = st == TT_OK ? report(&r) : bench_fail(&err);
    for (uint32_t i = 0; i < r.n; i++)
        free(r.paths[i]);
    free(r.paths);
    return rc;
}
