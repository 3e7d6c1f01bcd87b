#include "support/test_hub.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

#define MAX_FILES   64
#define MAX_CONNS   256
#define MAX_REQUEST 16384
#define STEP        65536

typedef struct served {
    char name[256], sha[65];
    uint64_t size;
    unsigned char *sent; /* one bit a byte would do; one byte is simpler */
} served;

typedef struct conn {
    test_hub *hub;
    int fd;
    bool content, used;
    bool ended; /* under the lock: can be joined */
    pthread_t thread;
} conn;

struct test_hub {
    char dir[512], repository[256], commit[65], url[64], content_url[64];
    int listen[2], wake[2];
    pthread_t acceptor;
    pthread_mutex_t lock;
    served files[MAX_FILES];
    unsigned n_files, serial;
    uint64_t sent, again;
    test_hub_fault fault;
    void *fault_ctx;
    conn conns[MAX_CONNS];
    unsigned waiting, together;
    pthread_cond_t gathered;
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

/* ---- files ---- */

static void read_dir(test_hub *h)
{
    DIR *d = opendir(h->dir);
    struct dirent *e;
    char path[1024];
    must(d != NULL, h->dir);
    while ((e = readdir(d)) != NULL) {
        struct stat sb;
        snprintf(path, sizeof path, "%s/%s", h->dir, e->d_name);
        if (stat(path, &sb) != 0 || !S_ISREG(sb.st_mode) || h->n_files == MAX_FILES)
            continue;
        served *f = &h->files[h->n_files++];
        snprintf(f->name, sizeof f->name, "%s", e->d_name);
        must(tt_file_sha256(path, f->sha, &f->size, NULL, NULL, NULL) == TT_OK, path);
        if (strstr(f->name, ".safetensors") != NULL && strstr(f->name, ".json") == NULL)
            f->sent = calloc(f->size + 1, 1);
    }
    closedir(d);
}

static served *find(test_hub *h, const char *name)
{
    for (unsigned i = 0; i < h->n_files; i++)
        if (strcmp(h->files[i].name, name) == 0)
            return &h->files[i];
    return NULL;
}

/* ---- answering ---- */

static bool send_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static void count(test_hub *h, served *f, uint64_t at, size_t n)
{
    if (f->sent == NULL)
        return;
    pthread_mutex_lock(&h->lock);
    h->sent += n;
    for (size_t i = 0; i < n; i++) {
        h->again += f->sent[at + i];
        f->sent[at + i] = 1;
    }
    pthread_mutex_unlock(&h->lock);
}

/* Waits until the other side gives up. */
static void stall(const conn *c)
{
    char byte;
    while (recv(c->fd, &byte, 1, 0) > 0)
        ;
}

/* One byte and then another, until the other side gives up. */
static bool drip(const conn *c, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct pollfd p = {c->fd, POLLIN, 0};
        if (!send_all(c->fd, bytes + i, 1) || poll(&p, 1, 50) != 0)
            return false;
    }
    return true;
}

static bool send_body(conn *c, served *f, const test_hub_answer *a, uint64_t begin, uint64_t n)
{
    char path[1024], *buf = malloc(STEP);
    snprintf(path, sizeof path, "%s/%s", c->hub->dir, f->name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && buf != NULL;
    uint64_t left = n < a->cut ? n : a->cut, at = begin;
    while (ok && left > 0) {
        size_t step = left < STEP ? (size_t)left : STEP;
        ok = pread(fd, buf, step, (off_t)at) == (ssize_t)step;
        if (a->spoil && at == begin)
            buf[step / 2] ^= 1;
        /* Before they go: the other side may be done with them, and ask for the count, at once. */
        if (ok)
            count(c->hub, f, at, step);
        ok = ok && send_all(c->fd, buf, step);
        at += step;
        left -= step;
    }
    while (ok && a->drip && at < begin + n) {
        ok = pread(fd, buf, 1, (off_t)at) == 1;
        if (ok)
            count(c->hub, f, at++, 1);
        ok = ok && drip(c, buf, 1);
    }
    if (fd >= 0)
        close(fd);
    free(buf);
    if (ok && a->cut < n && a->stall)
        stall(c);
    return ok && a->cut >= n;
}

static void describe(test_hub *h, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "{\"id\":\"%s\",\"sha\":\"%s\",\"siblings\":[",
                                h->repository, h->commit);
    for (unsigned i = 0; i < h->n_files; i++)
        n += (size_t)snprintf(out + n, size - n, "%s{\"rfilename\":\"%s\",\"size\":%llu}",
                              i > 0 ? "," : "", h->files[i].name,
                              (unsigned long long)h->files[i].size);
    snprintf(out + n, size - n, "]}");
}

/* The truth about one request. */
static served *truth(conn *c, const test_hub_request *r, test_hub_answer *a, char *text,
                     size_t size)
{
    test_hub *h = c->hub;
    *a = (test_hub_answer){.status = 200, .cut = UINT64_MAX};
    char api[400];
    snprintf(api, sizeof api, "/api/models/%s/revision/", h->repository);
    if (!c->content && strncmp(r->path, api, strlen(api)) == 0) {
        describe(h, text, size);
        a->text = text;
        return NULL;
    }
    served *f = find(h, r->file);
    if (f == NULL) {
        a->status = 404;
        snprintf(a->headers, sizeof a->headers, "X-Error-Code: EntryNotFound\r\n");
        a->text = "";
        return NULL;
    }
    snprintf(a->commit, sizeof a->commit, "%s", c->content ? "" : h->commit);
    if (f->sent != NULL && !c->content) {
        a->status = 302;
        a->text = "";
        snprintf(a->linked_etag, sizeof a->linked_etag, "%s", f->sha);
        snprintf(a->headers, sizeof a->headers, "X-Linked-Size: %llu\r\n",
                 (unsigned long long)f->size);
        snprintf(a->location, sizeof a->location, "%s/content/%s?signed=1", h->content_url,
                 f->name);
        return f;
    }
    snprintf(a->etag, sizeof a->etag, "%.40s", f->sha);
    a->first = 0;
    a->last = f->size - 1;
    a->total = f->size;
    if (r->ranged) {
        a->status = r->begin < f->size ? 206 : 416;
        a->first = r->begin;
        a->last = r->end < f->size ? r->end - 1 : f->size - 1;
        a->say_range = true;
    }
    a->length = a->last + 1 - a->first;
    return f;
}

/* With the lock held. A test that never gets there fails after a while instead of hanging. */
static void gather(test_hub *h, unsigned n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    h->waiting++;
    if (h->waiting > h->together)
        h->together = h->waiting;
    pthread_cond_broadcast(&h->gathered);
    while (h->together < n && pthread_cond_timedwait(&h->gathered, &h->lock, &until) == 0)
        ;
    h->waiting--;
}

static bool answer(conn *c, const test_hub_request *r)
{
    test_hub *h = c->hub;
    test_hub_answer a;
    char text[16384] = "", head[8192];
    pthread_mutex_lock(&h->lock);
    served *f = truth(c, r, &a, text, sizeof text);
    if (h->fault != NULL)
        h->fault(h->fault_ctx, r, &a);
    if (a.together > 0)
        gather(h, a.together);
    pthread_mutex_unlock(&h->lock);
    if (a.drop)
        return false;
    bool file = a.text == NULL && f != NULL && (a.status == 200 || a.status == 206);
    uint64_t n = file ? a.last + 1 - a.first : a.text != NULL ? strlen(a.text) : 0;
    uint64_t begin = a.first, says = file ? a.length : n;
    if (file && a.status == 206 && r->ranged) {
        begin = r->begin; /* a lie in Content-Range does not change the bytes */
        if (begin + n > f->size)
            n = f->size - begin;
    }
    if (a.end_early && a.cut < n)
        says = n = a.cut;
    int k = snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Length: %llu\r\n%s", a.status,
                     (unsigned long long)says, a.headers);
    if (a.etag[0] != '\0')
        k += snprintf(head + k, sizeof head - (size_t)k, "ETag: \"%s\"\r\n", a.etag);
    if (a.commit[0] != '\0')
        k += snprintf(head + k, sizeof head - (size_t)k, "X-Repo-Commit: %s\r\n", a.commit);
    if (a.linked_etag[0] != '\0')
        k +=
            snprintf(head + k, sizeof head - (size_t)k, "X-Linked-Etag: \"%s\"\r\n", a.linked_etag);
    if (a.location[0] != '\0')
        k += snprintf(head + k, sizeof head - (size_t)k, "Location: %s\r\n", a.location);
    if (a.say_range)
        k += snprintf(head + k, sizeof head - (size_t)k, "Content-Range: bytes %llu-%llu/%llu\r\n",
                      (unsigned long long)a.first, (unsigned long long)a.last,
                      (unsigned long long)a.total);
    k += snprintf(head + k, sizeof head - (size_t)k, "\r\n");
    if (a.drip_head ? !drip(c, head, (size_t)k) : !send_all(c->fd, head, (size_t)k))
        return false;
    if (!file)
        return n == 0 || send_all(c->fd, a.text, n);
    return send_body(c, f, &a, begin, n) && says == n;
}

static void parse(conn *c, char *text, test_hub_request *r)
{
    char *save = NULL, *line = strtok_r(text, "\r\n", &save);
    char *path = line != NULL ? strchr(line, ' ') : NULL;
    *r = (test_hub_request){.path = "", .file = "", .content = c->content};
    if (path == NULL)
        return;
    r->path = ++path;
    path[strcspn(path, " ?")] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL && (strstr(path, "/resolve/") != NULL || c->content))
        r->file = slash + 1;
    while ((line = strtok_r(NULL, "\r\n", &save)) != NULL) {
        unsigned long long a = 0, b = 0;
        if (sscanf(line, "Range: bytes=%llu-%llu", &a, &b) == 2) {
            r->ranged = true;
            r->begin = a;
            r->end = b + 1;
        }
        if (strncasecmp(line, "Authorization: Bearer ", 22) == 0)
            snprintf(r->token, sizeof r->token, "%s", line + 22);
    }
}

static void *serve(void *ctx)
{
    conn *c = ctx;
    test_hub *h = c->hub;
    char text[MAX_REQUEST];
    size_t n = 0;
    bool on = true;
    while (on) {
        ssize_t k = recv(c->fd, text + n, sizeof text - 1 - n, 0);
        if (k <= 0)
            break;
        n += (size_t)k;
        text[n] = '\0';
        char *end = strstr(text, "\r\n\r\n");
        if (end == NULL)
            continue;
        test_hub_request r;
        parse(c, text, &r);
        pthread_mutex_lock(&h->lock);
        r.serial = h->serial++;
        pthread_mutex_unlock(&h->lock);
        on = answer(c, &r);
        n = 0; /* nobody sends a second request before the answer */
    }
    shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_lock(&h->lock);
    c->ended = true;
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- connections ---- */

static void reap(test_hub *h)
{
    for (int i = 0; i < MAX_CONNS; i++) {
        conn *c = &h->conns[i];
        pthread_mutex_lock(&h->lock);
        bool ended = c->used && c->ended;
        pthread_mutex_unlock(&h->lock);
        if (!ended)
            continue;
        pthread_join(c->thread, NULL);
        close(c->fd);
        c->used = false;
    }
}

static void start_conn(test_hub *h, int fd, bool content)
{
    int one = 1;
    reap(h);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pthread_mutex_lock(&h->lock);
    conn *c = NULL;
    for (int i = 0; i < MAX_CONNS && c == NULL; i++)
        if (!h->conns[i].used)
            c = &h->conns[i];
    if (c != NULL)
        *c = (conn){.hub = h, .fd = fd, .content = content, .used = true};
    pthread_mutex_unlock(&h->lock);
    must(c != NULL, "connections of the test hub");
    must(pthread_create(&c->thread, NULL, serve, c) == 0, "pthread_create");
}

static void *accept_all(void *ctx)
{
    test_hub *h = ctx;
    for (;;) {
        struct pollfd p[3] = {
            {h->listen[0], POLLIN, 0}, {h->listen[1], POLLIN, 0}, {h->wake[0], POLLIN, 0}};
        if (poll(p, 3, -1) < 0 && errno != EINTR)
            break;
        if (p[2].revents != 0)
            break;
        for (int i = 0; i < 2; i++) {
            int fd = p[i].revents != 0 ? accept4(h->listen[i], NULL, NULL, SOCK_CLOEXEC) : -1;
            if (fd >= 0)
                start_conn(h, fd, i == 1);
        }
    }
    return NULL;
}

static int listen_on(char url[64])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 64) == 0 &&
             getsockname(fd, (struct sockaddr *)&a, &len) == 0,
         "socket of the test hub");
    snprintf(url, 64, "http://127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

test_hub *test_hub_start(const char *dir, const char *repository)
{
    test_hub *h = calloc(1, sizeof *h);
    must(h != NULL, "memory");
    snprintf(h->dir, sizeof h->dir, "%s", dir);
    snprintf(h->repository, sizeof h->repository, "%s", repository);
    strcpy(h->commit, TEST_HUB_COMMIT);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->gathered, NULL);
    read_dir(h);
    h->listen[0] = listen_on(h->url);
    h->listen[1] = listen_on(h->content_url);
    must(pipe2(h->wake, O_CLOEXEC) == 0, "pipe");
    must(pthread_create(&h->acceptor, NULL, accept_all, h) == 0, "pthread_create");
    return h;
}

void test_hub_set_commit(test_hub *h, const char *commit)
{
    pthread_mutex_lock(&h->lock);
    snprintf(h->commit, sizeof h->commit, "%s", commit);
    pthread_mutex_unlock(&h->lock);
}

void test_hub_set_fault(test_hub *h, test_hub_fault fault, void *ctx)
{
    pthread_mutex_lock(&h->lock);
    h->fault = fault;
    h->fault_ctx = ctx;
    pthread_mutex_unlock(&h->lock);
}

const char *test_hub_url(const test_hub *h)
{
    return h->url;
}

const char *test_hub_content_url(const test_hub *h)
{
    return h->content_url;
}

unsigned test_hub_requests(test_hub *h)
{
    pthread_mutex_lock(&h->lock);
    unsigned n = h->serial;
    pthread_mutex_unlock(&h->lock);
    return n;
}

unsigned test_hub_together(test_hub *h)
{
    pthread_mutex_lock(&h->lock);
    unsigned n = h->together;
    pthread_mutex_unlock(&h->lock);
    return n;
}

uint64_t test_hub_sent(test_hub *h)
{
    pthread_mutex_lock(&h->lock);
    uint64_t n = h->sent;
    pthread_mutex_unlock(&h->lock);
    return n;
}

uint64_t test_hub_sent_again(test_hub *h)
{
    pthread_mutex_lock(&h->lock);
    uint64_t n = h->again;
    pthread_mutex_unlock(&h->lock);
    return n;
}

uint64_t test_hub_sent_within(test_hub *h, const char *file, uint64_t begin, uint64_t end)
{
    uint64_t n = 0;
    pthread_mutex_lock(&h->lock);
    const served *f = find(h, file);
    for (uint64_t i = begin; f != NULL && i < end && i < f->size; i++)
        n += f->sent[i];
    pthread_mutex_unlock(&h->lock);
    return n;
}

void test_hub_forget(test_hub *h)
{
    pthread_mutex_lock(&h->lock);
    h->sent = h->again = 0;
    h->together = 0;
    for (unsigned i = 0; i < h->n_files; i++)
        if (h->files[i].sent != NULL)
            memset(h->files[i].sent, 0, h->files[i].size);
    pthread_mutex_unlock(&h->lock);
}

void test_hub_stop(test_hub **hub)
{
    test_hub *h = *hub;
    if (h == NULL)
        return;
    must(write(h->wake[1], "", 1) == 1, "pipe");
    pthread_join(h->acceptor, NULL);
    for (int i = 0; i < MAX_CONNS; i++) {
        conn *c = &h->conns[i];
        if (!c->used)
            continue;
        shutdown(c->fd, SHUT_RDWR);
        pthread_join(c->thread, NULL);
        close(c->fd);
    }
    for (int i = 0; i < 2; i++) {
        close(h->listen[i]);
        close(h->wake[i]);
    }
    for (unsigned i = 0; i < h->n_files; i++)
        free(h->files[i].sent);
    pthread_cond_destroy(&h->gathered);
    pthread_mutex_destroy(&h->lock);
    free(h);
    *hub = NULL;
}

void test_hub_gate(void *ctx, const test_hub_request *r, test_hub_answer *a)
{
    if (r->file[0] == '\0')
        return;
    a->status = 403;
    a->text = "";
    a->location[0] = '\0';
    strcpy(a->headers, "X-Error-Code: GatedRepo\r\n");
}
