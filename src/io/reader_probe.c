#include "io/reader_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rates_file.h"
#include "io/reader_files.h"

/* ---- measuring ---- */

typedef struct measure {
    const tt_measure_options *o;
    tt_reader *reader;
    uint64_t *places; /* [n + 1] reads that fit in the files before this one */
    uint32_t n;
    tt_read *rd;
    uint32_t window;
    void *memory;
    uint64_t random, started;
} measure;

static tt_status count_places(measure *m, const char *const *paths, tt_error *err)
{
    m->places = calloc((size_t)m->n + 1, sizeof *m->places);
    if (m->places == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a measurement of %u files", m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        struct stat sb;
        if (stat(paths[i], &sb) != 0)
            return tt_fail_errno(err, errno, paths[i], "cannot stat %s", paths[i]);
        m->places[i + 1] = m->places[i] + (uint64_t)sb.st_size / m->o->read_bytes;
    }
    if (m->places[m->n] == 0)
        return tt_fail(err, TT_ERR_INVALID,
                       "none of %u files has the %llu bytes of one read: nothing to measure", m->n,
                       (unsigned long long)m->o->read_bytes);
    return TT_OK;
}

/* As many reads as keep depth and pieces busy. */
static uint32_t window_of(const tt_reader_options *ro, uint64_t bytes)
{
    uint64_t depth = ro->depth > 0 ? ro->depth : TT_IO_DEPTH;
    uint64_t piece = ro->piece_bytes > 0 ? ro->piece_bytes : TT_IO_PIECE;
    uint64_t most = TT_MEASURE_MEMORY / bytes;
    uint64_t window = (depth * piece + bytes - 1) / bytes + 1;
    window = window > most ? most : window;
    return window > 0 ? (uint32_t)window : 1;
}

static tt_status take_memory(measure *m, tt_error *err)
{
    uint64_t bytes = m->o->read_bytes;
    m->window = window_of(&m->o->reader, bytes);
    m->rd = calloc(m->window, sizeof *m->rd);
    if (m->rd == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u reads", m->window);
    TT_TRY(tt_mem_alloc(m->window * bytes, "a measurement", &m->memory, err));
    memset(m->memory, 1, m->window * bytes); /* first touch is not what is measured */
    for (uint64_t at = 0, end = m->window * bytes; at < end; at += TT_IO_MAX_SLAB)
        TT_TRY(tt_reader_register_memory(m->reader, (char *)m->memory + at,
                                         end - at < TT_IO_MAX_SLAB ? end - at : TT_IO_MAX_SLAB,
                                         err));
    return TT_OK;
}

static tt_status start_one(measure *m, uint32_t i, tt_error *err)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    uint64_t place = (m->random >> 33) % m->places[m->n];
    uint32_t file = 0;
    while (m->places[file + 1] <= place)
        file++;
    m->rd[i] = (tt_read){.file = file,
                         .offset = (place - m->places[file]) * m->o->read_bytes,
                         .bytes = m->o->read_bytes,
                         .dst = (char *)m->memory + i * m->o->read_bytes};
    m->started += m->o->read_bytes;
    return m->reader->ops->start(m->reader, &m->rd[i], err);
}

/* The oldest read is waited for and its place taken by a new one. What was started is waited for
 * even after a failure: it goes to memory of ours. */
static tt_status run(measure *m, tt_measurement *out, tt_error *err)
{
    uint64_t most = m->o->max_bytes > 0 ? m->o->max_bytes : UINT64_MAX;
    tt_status st = TT_OK;
    uint32_t flying = 0, oldest = 0;
    double begin = tt_now();
    while (st == TT_OK && flying < m->window && (flying == 0 || m->started < most)) {
        st = start_one(m, flying, err);
        flying += st == TT_OK;
    }
    tt_reader_flush(m->reader);
    uint32_t window = flying;
    while (flying > 0) {
        tt_status one = m->reader->ops->wait(m->reader, &m->rd[oldest], st == TT_OK ? err : NULL);
        st = st != TT_OK ? st : one;
        flying--;
        out->reads++;
        out->bytes += m->o->read_bytes;
        out->seconds = tt_now() - begin;
        if (st == TT_OK && out->seconds < m->o->seconds && m->started < most) {
            st = start_one(m, oldest, err);
            flying += st == TT_OK;
            tt_reader_flush(m->reader);
        }
        oldest = (oldest + 1) % window;
    }
    out->rate = out->seconds > 0 ? (double)out->bytes / out->seconds : 0;
    return st;
}

tt_status tt_reader_measure(const char *const *paths, uint32_t n, const tt_measure_options *o,
                            tt_measurement *out, tt_error *err)
{
    if (o->read_bytes == 0 || o->read_bytes % TT_IO_ALIGN != 0 || o->read_bytes > TT_IO_MAX_SLAB)
        return tt_fail(err, TT_ERR_INVALID, "reads of %llu bytes, must be a multiple of %u",
                       (unsigned long long)o->read_bytes, TT_IO_ALIGN);
    tt_reader_options ro = o->reader;
    ro.skip_page_cache = true;
    measure m = {.o = o, .n = n, .random = o->seed};
    tt_measurement result = {0};
    tt_status st = TT_OK;
    TT_GOTO(count_places(&m, paths, err), out);
    TT_GOTO(tt_reader_open(paths, n, &ro, &m.reader, err), out);
    TT_GOTO(take_memory(&m, err), out);
    TT_GOTO(run(&m, &result, err), out);
    tt_reader_get_stats(m.reader, &result.stats);
    snprintf(result.name, sizeof result.name, "%s", m.reader->ops->name);
    memcpy(result.describe, m.reader->describe, sizeof result.describe);
    *out = result;
out:
    tt_reader_close(&m.reader);
    tt_mem_free(m.memory, m.window * o->read_bytes);
    free(m.rd);
    free(m.places);
    return st;
}

/* ---- the file of results ---- */

#define LIST         "devices"
#define MOST_DEVICES 64u

static tt_status name_device(const char *path, char out[96], tt_error *err)
{
    int fd = -1;
    struct stat sb;
    struct statfs fs;
    char system[32];
    TT_TRY(tt_file_open(path, &fd, NULL, err));
    bool known = fstat(fd, &sb) == 0 && fstatfs(fd, &fs) == 0;
    int e = errno;
    tt_file_system_name(fd, system);
    close(fd);
    if (!known)
        return tt_fail_errno(err, e, path, "cannot tell the device of %s", path);
    snprintf(out, 96, "%u:%u %s %llu", major(sb.st_dev), minor(sb.st_dev), system,
             (unsigned long long)fs.f_blocks * (unsigned long long)fs.f_bsize);
    return TT_OK;
}

static bool is_for(const json_t *entry, const tt_probe *p)
{
    const char *device = json_string_value(json_object_get(entry, "device"));
    const char *reader = json_string_value(json_object_get(entry, "reader"));
    return device != NULL && reader != NULL && strcmp(device, p->device) == 0 &&
           (p->reader[0] == '\0' || strcmp(reader, p->reader) == 0);
}

/* Nothing in the file is believed before it has been looked at. */
static bool take_entry(const json_t *entry, tt_probe *p)
{
    tt_probe q = *p;
    uint64_t when;
    const char *reader;
    if (tt_json_get_u32(entry, "depth", "", 1, TT_IO_MAX_DEPTH, &q.depth, NULL) != TT_OK ||
        tt_json_get_u32(entry, "piece_bytes", "", TT_IO_MIN_PIECE, TT_IO_MAX_PIECE, &q.piece_bytes,
                        NULL) != TT_OK ||
        tt_json_get_number(entry, "bytes_per_second", "", 1, 1e13, &q.rate, NULL) != TT_OK ||
        tt_json_get_u64(entry, "time", "", 0, INT64_MAX, &when, NULL) != TT_OK ||
        tt_json_get_string(entry, "reader", "", &reader, NULL) != TT_OK ||
        q.piece_bytes % TT_IO_ALIGN != 0)
        return false;
    snprintf(q.reader, sizeof q.reader, "%s", reader);
    q.time = (int64_t)when;
    q.probed = q.cached = true;
    *p = q;
    return true;
}

static bool look_up(const char *file, tt_probe *p)
{
    json_t *devices = tt_rates_load(file, LIST);
    bool found = false;
    for (size_t i = 0; !found && i < json_array_size(devices); i++) {
        const json_t *entry = json_array_get(devices, i);
        found = is_for(entry, p) && take_entry(entry, p);
    }
    json_decref(devices);
    return found;
}

static tt_status keep(const char *file, const tt_probe *p, uint64_t read_bytes, tt_error *err)
{
    json_t *devices = tt_rates_load(file, LIST);
    for (size_t i = json_array_size(devices); i-- > 0;)
        if (is_for(json_array_get(devices, i), p) || i >= MOST_DEVICES - 1)
            json_array_remove(devices, i);
    json_t *entry = json_pack("{s:s, s:s, s:I, s:I, s:f, s:I, s:I}", "device", p->device, "reader",
                              p->reader, "depth", (json_int_t)p->depth, "piece_bytes",
                              (json_int_t)p->piece_bytes, "bytes_per_second", p->rate, "read_bytes",
                              (json_int_t)read_bytes, "time", (json_int_t)p->time);
    if (json_array_insert_new(devices, 0, entry) != 0) {
        json_decref(devices);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the file of probes");
    }
    return tt_rates_save(file, LIST, devices, err);
}

/* ---- the choice ---- */

/* Fewest bytes in flight first: where more brings nothing, less leaves more to others. */
static const struct {
    uint32_t depth, piece_bytes;
} candidates[] = {{8, 256 << 10},  {8, 512 << 10},  {32, 256 << 10},
                  {16, 512 << 10}, {32, 512 << 10}, {64, 512 << 10}};

#define CANDIDATES   (sizeof candidates / sizeof candidates[0])
#define ROUNDS       2u /* disks drift: each candidate twice, by turns */
#define BYTES_EACH   (192 * TT_MIB)
#define POOL_THREADS 16u  /* depth beyond what a pool makes of it is the same again */
#define WORTH        1.04 /* how much faster more in flight has to be */

uint64_t tt_probe_memory(uint64_t read_bytes)
{
    uint64_t most = 0;
    for (uint32_t i = 0; read_bytes > 0 && i < CANDIDATES; i++) {
        tt_reader_options ro = {.depth = candidates[i].depth,
                                .piece_bytes = candidates[i].piece_bytes};
        uint64_t bytes = window_of(&ro, read_bytes) * read_bytes;
        most = bytes > most ? bytes : most;
    }
    return most + 2 * TT_MIB; /* the reader's own, and the kernel's pages to describe it all */
}

typedef struct tally {
    double bytes, seconds;
} tally;

static uint32_t best_of(const tally t[CANDIDATES])
{
    uint32_t best = CANDIDATES;
    double best_rate = 0;
    for (uint32_t i = 0; i < CANDIDATES; i++) {
        double rate = t[i].seconds > 0 ? t[i].bytes / t[i].seconds : 0;
        if (rate > best_rate * (best < CANDIDATES ? WORTH : 1)) {
            best = i;
            best_rate = rate;
        }
    }
    return best;
}

/* Whether the drain of what a candidate has in flight still fits before `end`. */
static bool fits(uint32_t i, const tt_probe_options *o, double slice, double rate, double end)
{
    double in_flight =
        (double)candidates[i].depth * candidates[i].piece_bytes + 2 * (double)o->read_bytes;
    return rate <= 0 || tt_now() + slice + in_flight / rate < end;
}

static tt_status measure_all(const tt_probe_options *o, tt_probe *p, tt_error *err)
{
    tally t[CANDIDATES] = {{0, 0}};
    double seconds = o->seconds > 0 ? o->seconds : TT_PROBE_SECONDS, end = tt_now() + seconds;
    double slice = seconds / (double)(CANDIDATES * ROUNDS) / 2, rate = 0;
    for (uint32_t k = 0; k < CANDIDATES * ROUNDS; k++) {
        uint32_t i = k % CANDIDATES;
        tt_measure_options mo = {.reader = {.kind = o->kind,
                                            .depth = candidates[i].depth,
                                            .piece_bytes = candidates[i].piece_bytes},
                                 .read_bytes = o->read_bytes,
                                 .seconds = slice,
                                 .max_bytes = BYTES_EACH,
                                 .seed = k + 1};
        bool repeats = p->reader[0] != '\0' && strcmp(p->reader, "uring") != 0 &&
                       candidates[i].depth > POOL_THREADS;
        if (repeats || !fits(i, o, slice, rate, end))
            continue;
        tt_measurement m;
        TT_TRY(tt_reader_measure(o->paths, o->n, &mo, &m, err));
        snprintf(p->reader, sizeof p->reader, "%s", m.name);
        t[i].bytes += (double)m.bytes;
        t[i].seconds += m.seconds;
        rate = m.rate;
    }
    uint32_t best = best_of(t);
    if (best == CANDIDATES)
        return tt_fail(err, TT_ERR_INTERNAL, "the clock stood still while the disk was measured");
    p->depth = candidates[best].depth;
    p->piece_bytes = candidates[best].piece_bytes;
    p->rate = t[best].bytes / t[best].seconds;
    p->time = (int64_t)time(NULL);
    p->probed = true;
    return TT_OK;
}

tt_status tt_reader_probe(const tt_probe_options *o, tt_probe *out, tt_error *err)
{
    static const char *const kinds[] = {"", "uring", "pool", "buffered"};
    tt_probe p = {0};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        struct stat sb;
        bytes += stat(o->paths[i], &sb) == 0 ? (uint64_t)sb.st_size : 0;
    }
    if (o->n == 0 || bytes < o->min_bytes) {
        *out = p;
        return TT_OK;
    }
    TT_TRY(name_device(o->paths[0], p.device, err));
    snprintf(p.reader, sizeof p.reader, "%s", kinds[o->kind]);
    bool known = o->cache_file != NULL && look_up(o->cache_file, &p);
    if (!known && o->memory > 0 && o->memory < tt_probe_memory(o->read_bytes)) {
        *out = (tt_probe){.note = "the budget leaves no memory for it"};
        return TT_OK;
    }
    if (!known) {
        tt_error e = {0};
        p.reader[0] = '\0';
        TT_TRY(measure_all(o, &p, err));
        if (o->cache_file != NULL && keep(o->cache_file, &p, o->read_bytes, &e) != TT_OK)
            snprintf(p.note, sizeof p.note, "%.*s", (int)sizeof p.note - 1, e.message);
    }
    *out = p;
    return TT_OK;
}

void tt_probe_text(const tt_probe *p, char out[80])
{
    int n = snprintf(out, 80, "%.2f GB/s measured", p->rate / 1e9);
    struct tm tm;
    time_t when = (time_t)p->time;
    if (p->cached && n > 0 && gmtime_r(&when, &tm) != NULL)
        snprintf(out + n, 80 - (size_t)n, " on %04d-%02d-%02d, cached", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday);
}
