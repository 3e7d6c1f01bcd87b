/* How fast text comes in: seconds from the first piece to the last.
 *
 *   stream_rate < PIPE                        of what a program prints: SECONDS BYTES
 *   stream_rate PORT MODEL PROMPT TOKENS      of a streamed Chat answer of TinyTitanServer,
 * likeliest tokens: SECONDS TOKENS, as its usage counts them
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int die(const char *what)
{
    fprintf(stderr, "stream_rate: %s\n", what);
    return 1;
}

static int of_a_pipe(void)
{
    char bytes[65536];
    double first = 0, last = 0;
    size_t all = 0;
    for (ssize_t n; (n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0; all += (size_t)n) {
        last = now();
        first = all == 0 ? last : first;
    }
    printf("%.9f %zu\n", last - first, all);
    return all == 0;
}

static int ask(int port, const char *model, const char *prompt, const char *tokens)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char body[8192], head[512];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int n = snprintf(body, sizeof body,
                     "{\"model\":\"%s\",\"stream\":true,\"temperature\":0,\"max_tokens\":%s,"
                     "\"stream_options\":{\"include_usage\":true},\"messages\":[{\"role\":\"user\","
                     "\"content\":\"%s\"}]}",
                     model, tokens, prompt);
    int h =
        snprintf(head, sizeof head,
                 "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                 "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
                 n);
    if (n >= (int)sizeof body || fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        write(fd, head, (size_t)h) != h || write(fd, body, (size_t)n) != n)
        return -1;
    return fd;
}

/* Whether a piece of the stream holds text of the answer. */
static int has_text(const char *piece)
{
    return (strstr(piece, "\"delta\":{\"content\":\"") != NULL &&
            strstr(piece, "\"content\":\"\"}") == NULL) ||
           strstr(piece, "\"reasoning_content\":\"") != NULL;
}

static int of_a_server(int port, const char *model, const char *prompt, const char *tokens)
{
    static char all[1 << 24];
    double first = 0, last = 0;
    size_t len = 0;
    int fd = ask(port, model, prompt, tokens);
    if (fd < 0)
        return die("no server");
    for (ssize_t n; (n = read(fd, all + len, sizeof all - 1 - len)) > 0; len += (size_t)n) {
        double t = now();
        all[len + (size_t)n] = '\0';
        if (!has_text(all + len))
            continue;
        last = t;
        first = first > 0 ? first : t;
    }
    const char *usage = strstr(all, "\"completion_tokens\":");
    if (usage == NULL || strstr(all, "data: [DONE]") == NULL)
        return die(all);
    printf("%.9f %ld\n", last - first, strtol(usage + 20, NULL, 10));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return of_a_pipe();
    if (argc != 5)
        return die("PORT MODEL PROMPT TOKENS, or a pipe");
    return of_a_server(atoi(argv[1]), argv[2], argv[3], argv[4]);
}
