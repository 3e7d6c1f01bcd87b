/* The checks of docs/http.md, sections 2.2 to 2.4, one function a row. */
#include "server/http_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuse(tt_http_verdict *v, int status, const char *code, const char *text)
{
    v->status = status;
    v->code = code;
    v->text = text;
    return false;
}

/* ---- Host ---- */

/* Length of the name of this machine that `text` begins with, or 0. */
static size_t own_name(const char *text)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncasecmp(text, names[i], strlen(names[i])) == 0)
            return strlen(names[i]);
    return 0;
}

/* ":8080" to its number; 0 when it is none. */
static unsigned port_of(const char *text)
{
    size_t n = text[0] == ':' ? strspn(text + 1, "0123456789") : 0;
    if (n < 1 || n > 5 || text[n + 1] != '\0')
        return 0;
    unsigned long port = strtoul(text + 1, NULL, 10);
    return port <= 65535 ? (unsigned)port : 0;
}

static bool check_host(const tt_http1 *h, tt_http_verdict *v)
{
    const char *host = tt_http1_field(h, "host", NULL);
    if (host == NULL || host[0] == '\0')
        return refuse(v, 400, "missing_host", "the request has no Host");
    size_t n = own_name(host);
    if (n == 0 || (host[n] != '\0' && port_of(host + n) == 0))
        return refuse(v, 403, "host_not_allowed",
                      "Host must be 127.0.0.1, localhost or [::1], with any port");
    return true;
}

/* ---- Origin ---- */

static bool is_own_origin(const tt_http_policy *p, const char *origin)
{
    if (p->port == 0 || strncasecmp(origin, "http://", 7) != 0)
        return false;
    origin += 7;
    size_t n = own_name(origin);
    if (n == 0)
        return false;
    /* A browser leaves the scheme's own port out. */
    return origin[n] == '\0' ? p->port == 80 : port_of(origin + n) == p->port;
}

static const char *named_origin(const tt_http_policy *p, const char *origin)
{
    for (size_t i = 0; i < p->n_origins; i++)
        if (strcasecmp(origin, p->origins[i]) == 0)
            return origin;
    return NULL;
}

static bool check_origin(const tt_http_policy *p, const tt_http1 *h, tt_http_verdict *v)
{
    const char *origin = tt_http1_field(h, "origin", NULL);
    if (origin == NULL)
        return true;
    if (strcasecmp(origin, "null") != 0)
        v->allow_origin = named_origin(p, origin);
    if (v->allow_origin == NULL && !is_own_origin(p, origin))
        return refuse(v, 403, "origin_not_allowed",
                      "pages of this origin may not use the server; --allow-origin can name it");
    return true;
}

bool tt_http_origin_valid(const char *origin)
{
    static const char scheme_bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789+-.";
    size_t n = strspn(origin, scheme_bytes);
    if (n == 0 || strncmp(origin + n, "://", 3) != 0)
        return false;
    const char *host = origin + n + 3;
    size_t len = host[0] == '[' ? strspn(host + 1, "0123456789abcdefABCDEF:.") + 1
                                : strcspn(host, ":/?#@*[] \t\r\n\"");
    if (host[0] == '[' && (len == 1 || host[len++] != ']'))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)host[i] <= ' ' || (unsigned char)host[i] >= 0x7f)
            return false;
    return len > 0 && (host[len] == '\0' || port_of(host + len) != 0);
}

/* ---- the key ---- */

static bool key_matches(const char *key, const char *sent)
{
    size_t n = strlen(sent), len = strlen(key);
    unsigned differ = n != len;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned char)sent[i] ^ (unsigned char)key[i < len ? i : 0];
    /* Keeps the compiler from leaving the loop early. */
    __asm__ volatile("" : "+r"(differ));
    return differ == 0;
}

static const char *bearer(const char *value)
{
    if (value == NULL || strncasecmp(value, "bearer ", 7) != 0)
        return NULL;
    return value + 7 + strspn(value + 7, " ");
}

/* Section 2.4: `/` and `/health` are for everybody. */
static bool is_open(const char *target)
{
    size_t n = strcspn(target, "?");
    return n == 1 || (n == 7 && strncmp(target, "/health", 7) == 0);
}

static bool check_key(const tt_http_policy *p, const tt_http1 *h, tt_http_verdict *v)
{
    if (p->key == NULL || is_open(tt_http1_target(h)))
        return true;
    const char *sent[2] = {bearer(tt_http1_field(h, "authorization", NULL)),
                           tt_http1_field(h, "x-api-key", NULL)};
    for (int i = 0; i < 2; i++)
        if (sent[i] != NULL && key_matches(p->key, sent[i]))
            return true;
    v->ask_for_key = true;
    return refuse(v, 401, "invalid_api_key",
                  sent[0] == NULL && sent[1] == NULL
                      ? "the server asks for a key: send it as Authorization: Bearer or x-api-key"
                      : "the key is not the server's");
}

/* ---- admission ---- */

static bool check_once(const tt_http1 *h, tt_http_verdict *v)
{
    static const char *const names[] = {
        "host", "origin", "content-type", "content-encoding", "authorization", "x-api-key"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsigned n;
        tt_http1_field(h, names[i], &n);
        if (n > 1)
            return refuse(v, 400, "duplicate_header",
                          "Host, Origin, Content-Type, Content-Encoding, Authorization and "
                          "x-api-key may be there once");
    }
    return true;
}

/* A list of field names, so that it can be sent back as it came. */
static bool is_names(const char *list)
{
    for (; *list != '\0'; list++)
        if (strchr("-_, ", *list) == NULL && !(*list >= '0' && *list <= '9') &&
            !((*list | 0x20) >= 'a' && (*list | 0x20) <= 'z'))
            return false;
    return true;
}

bool tt_http_admit(const tt_http_policy *policy, const tt_http1 *h, tt_http_verdict *verdict)
{
    *verdict = (tt_http_verdict){0};
    if (!check_once(h, verdict) || !check_host(h, verdict) || !check_origin(policy, h, verdict))
        return false;
    if (verdict->allow_origin != NULL && strcmp(tt_http1_method(h), "OPTIONS") == 0 &&
        tt_http1_field(h, "access-control-request-method", NULL) != NULL) {
        const char *names = tt_http1_field(h, "access-control-request-headers", NULL);
        verdict->preflight = true;
        verdict->allow_headers =
            names != NULL && names[0] != '\0' && is_names(names) ? names : NULL;
        return true;
    }
    return check_key(policy, h, verdict);
}

/* ---- content ---- */

/* The value of `charset` in the parameters of a type says UTF-8, or there is none. */
static bool charset_fits(const char *parameters)
{
    const char *at = parameters;
    while (*at != '\0') {
        at += strspn(at, "; \t");
        if (strncasecmp(at, "charset=", 8) == 0) {
            const char *value = at + 8;
            size_t n = strcspn(value, "; \t");
            if (n >= 2 && value[0] == '"' && value[n - 1] == '"') {
                value++;
                n -= 2;
            }
            if (n != 5 || strncasecmp(value, "utf-8", 5) != 0)
                return false;
        }
        at += strcspn(at, ";");
    }
    return true;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t n = sizeof json - 1;
    if (type == NULL || strncasecmp(type, json, n) != 0)
        return false;
    type += n + strspn(type + n, " \t");
    return *type == '\0' || (*type == ';' && charset_fits(type));
}

bool tt_http_check_content(const tt_http1 *h, tt_http_verdict *verdict)
{
    const char *encoding = tt_http1_field(h, "content-encoding", NULL);
    if (strcmp(tt_http1_method(h), "POST") != 0)
        return !tt_http1_has_body(h) ||
               refuse(verdict, 400, "unexpected_body", "a body belongs to POST only");
    if (!is_json(tt_http1_field(h, "content-type", NULL)))
        return refuse(verdict, 415, "unsupported_media_type",
                      "Content-Type must be application/json in UTF-8");
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0)
        return refuse(verdict, 415, "unsupported_media_type",
                      "the body must not be compressed: Content-Encoding is there");
    return true;
}

/* ---- the file of the key ---- */

static tt_status check_file(int fd, const char *path, tt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return tt_fail_errno(err, errno, path, "cannot look at the key's file");
    if (!S_ISREG(st.st_mode))
        return tt_fail_at(err, TT_ERR_INVALID, path, -1, "the key's file is not a regular file");
    if (st.st_uid != geteuid())
        return tt_fail_at(err, TT_ERR_INVALID, path, -1,
                          "the key's file belongs to user %u, the server runs as %u: it must be "
                          "the same",
                          (unsigned)st.st_uid, (unsigned)geteuid());
    if ((st.st_mode & 077) != 0)
        return tt_fail_at(err, TT_ERR_INVALID, path, -1,
                          "the key's file has mode %04o, so others may touch it: chmod 600",
                          (unsigned)st.st_mode & 07777);
    return TT_OK;
}

static tt_status take_key(const char *text, size_t n, const char *path, char *key, tt_error *err)
{
    if (n > 0 && text[n - 1] == '\n')
        n--;
    if (n > 0 && text[n - 1] == '\r')
        n--;
    if (n < 1 || n > TT_API_KEY_MAX)
        return tt_fail_at(err, TT_ERR_INVALID, path, -1,
                          "the key must have 1 to %u characters on one line", TT_API_KEY_MAX);
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return tt_fail_at(err, TT_ERR_INVALID, path, (int64_t)i,
                              "the key must be visible ASCII on one line");
    memcpy(key, text, n);
    key[n] = '\0';
    return TT_OK;
}

tt_status tt_api_key_load(const char *path, char key[TT_API_KEY_MAX + 1], tt_error *err)
{
    char text[TT_API_KEY_MAX + 3];
    size_t n = 0;
    ssize_t got = 1; /* again */
    /* A pipe of that name must not hold the server up. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return tt_fail_errno(err, errno, path, "cannot open the key's file");
    tt_status st = check_file(fd, path, err);
    while (st == TT_OK && got > 0 && n < sizeof text) {
        got = read(fd, text + n, sizeof text - n);
        if (got < 0 && errno == EINTR)
            got = 1; /* again */
        else if (got < 0)
            st = tt_fail_errno(err, errno, path, "cannot read the key's file");
        else
            n += (size_t)got;
    }
    close(fd);
    return st == TT_OK ? take_key(text, n, path, key, err) : st;
}
