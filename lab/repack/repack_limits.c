/* What bounds a conversion, each alone, as "BYTES SECONDS":
 *
 *   repack_limits read BYTES FILE...     reads files one after the other, so many bytes of them
 *   repack_limits write BYTES FILE       writes random bytes, synced, and removes the file
 *   repack_limits quantize BYTES THREADS bf16 in memory to 4 bits, with the SHA-256 of the result
 *   repack_limits run COMMAND...         a command: the most memory it had, and its seconds */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/pool.h"
#include "format/dtype.h"
#include "format/quant.h"

#define STEP ((size_t)8 << 20)

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static void tell(unsigned long long bytes, double since)
{
    printf("%llu %.6f\n", bytes, tt_now() - since);
}

static uint64_t state = 88172645463325252u;
static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void read_files(unsigned long long most, char **files)
{
    char *buf = malloc(STEP);
    unsigned long long done = 0;
    double since = tt_now();
    for (; *files != NULL && done < most; files++) {
        int fd = open(*files, O_RDONLY | O_CLOEXEC);
        ssize_t n;
        must(fd >= 0 && buf != NULL, *files);
        posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        while (done < most && (n = read(fd, buf, STEP)) > 0)
            done += (unsigned long long)n;
        close(fd);
    }
    tell(done, since);
    free(buf);
}

static void write_file(unsigned long long bytes, const char *path)
{
    uint64_t *buf = malloc(STEP);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    must(fd >= 0 && buf != NULL, path);
    for (size_t i = 0; i < STEP / 8; i++)
        buf[i] = draw();
    double since = tt_now();
    for (unsigned long long done = 0; done < bytes; done += STEP) {
        buf[0] = done;
        must(write(fd, buf, STEP) == (ssize_t)STEP, path);
    }
    must(fsync(fd) == 0, path);
    tell(bytes, since);
    close(fd);
    unlink(path);
    free(buf);
}

typedef struct widening {
    const uint16_t *from;
    float *to;
} widening;

static void widen(void *ctx, size_t begin, size_t end, unsigned worker)
{
    const widening *w = ctx;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        w->to[i] = tt_bf16_to_f32(w->from[i]);
}

/* Rows of 2,048 values, 4 million values at a time. */
static void quantize(unsigned long long bytes, unsigned threads)
{
    const uint64_t cols = 2048, rows = 2048, n = rows * cols, chunks = 16;
    uint16_t *from = malloc(2 * n * chunks), *scales = malloc(n / 32), *biases = malloc(n / 32);
    float *f32 = malloc(4 * n);
    uint32_t *words = malloc(n / 2);
    tt_pool *pool = NULL;
    tt_sha256 *sha = NULL;
    must(from != NULL && scales != NULL && biases != NULL && f32 != NULL && words != NULL,
         "memory");
    must(tt_pool_create(threads, &pool, NULL) == TT_OK, "threads");
    must(tt_sha256_create(&sha, NULL) == TT_OK, "SHA-256");
    for (uint64_t i = 0; i < n * chunks; i++)
        from[i] = tt_f32_to_bf16((float)((double)(draw() >> 11) / (1ull << 53) - 0.5) * 0.1f);
    double since = tt_now();
    for (unsigned long long done = 0, k = 0; done < bytes; done += 2 * n, k++) {
        widening w = {from + k % chunks * n, f32};
        tt_pool_run(pool, n, 65536, widen, &w);
        must(tt_quant_encode(4, f32, rows, cols, words, scales, biases, pool, NULL) == TT_OK &&
                 tt_sha256_update(sha, words, n / 2, NULL) == TT_OK &&
                 tt_sha256_update(sha, scales, n / 32, NULL) == TT_OK &&
                 tt_sha256_update(sha, biases, n / 32, NULL) == TT_OK,
             "quantization");
    }
    tell((bytes + 2 * n - 1) / (2 * n) * (2 * n), since);
    tt_sha256_close(&sha);
    tt_pool_close(&pool);
    free(from);
    free(scales);
    free(biases);
    free(f32);
    free(words);
}

static int run(char **command)
{
    struct rusage ru;
    int status = 0;
    double since = tt_now();
    pid_t pid = fork();
    if (pid == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(command[0], command);
        _exit(127);
    }
    must(pid > 0 && wait4(pid, &status, 0, &ru) == pid, command[0]);
    tell((unsigned long long)ru.ru_maxrss * 1024, since);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "run") == 0)
        return run(argv + 2);
    if (argc > 3 && strcmp(what, "read") == 0)
        read_files(strtoull(argv[2], NULL, 10), argv + 3);
    else if (argc == 4 && strcmp(what, "write") == 0)
        write_file(strtoull(argv[2], NULL, 10), argv[3]);
    else if (argc == 4 && strcmp(what, "quantize") == 0)
        quantize(strtoull(argv[2], NULL, 10), (unsigned)atoi(argv[3]));
    else {
        fprintf(stderr, "usage: repack_limits read|write|quantize|run ...\n");
        return 2;
    }
    return 0;
}
