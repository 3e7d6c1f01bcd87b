#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/stop.h"

static volatile sig_atomic_t interrupted, ended, resized, resumed;
static tt_idle_fn idle;
static void *idle_ctx;
static int wake[2] = {-1, -1};

static void on_signal(int sig)
{
    int saved = errno;
    if (sig == SIGINT)
        interrupted = 1;
    else if (sig == SIGTERM || sig == SIGHUP)
        ended = sig;
    else if (sig == SIGWINCH)
        resized = 1;
    else
        resumed = 1;
    /* A full pipe wakes the reader just as well. */
    ssize_t n = write(wake[1], "", 1);
    (void)n;
    errno = saved;
}

static tt_status handle(int sig, void (*handler)(int), int flags, tt_error *err)
{
    struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&sa.sa_mask);
    if (sigaction(sig, &sa, NULL) != 0)
        return tt_fail_errno(err, errno, NULL, "signal %d cannot be handled", sig);
    return TT_OK;
}

tt_status tt_interrupt_install(bool keep_running, tt_error *err)
{
    if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return tt_fail_errno(err, errno, NULL, "no pipe for signals");
    TT_TRY(handle(SIGINT, on_signal, SA_RESTART | (keep_running ? 0 : (int)SA_RESETHAND), err));
    TT_TRY(handle(SIGTERM, on_signal, SA_RESTART | (int)SA_RESETHAND, err));
    struct sigaction hup;
    if (sigaction(SIGHUP, NULL, &hup) != 0 || hup.sa_handler != SIG_IGN) /* not under nohup */
        TT_TRY(handle(SIGHUP, on_signal, SA_RESTART | (int)SA_RESETHAND, err));
    TT_TRY(handle(SIGPIPE, SIG_IGN, 0, err));
    TT_TRY(handle(SIGXFSZ, SIG_IGN, 0, err));
    if (!keep_running)
        return TT_OK;
    TT_TRY(handle(SIGWINCH, on_signal, SA_RESTART, err));
    return handle(SIGCONT, on_signal, SA_RESTART, err);
}

bool tt_interrupted(void)
{
    return interrupted != 0 || ended != 0;
}

bool tt_ended(void)
{
    return ended != 0;
}

int tt_interrupt_code(void)
{
    return tt_stop_code(ended != 0 ? ended : SIGINT);
}

const char *tt_interrupt_words(void)
{
    return ended == 0 ? "interrupted" : ended == SIGTERM ? "ended by SIGTERM" : "ended by SIGHUP";
}

void tt_interrupt_clear(void)
{
    interrupted = 0;
}

static void drain(void)
{
    char bytes[64];
    while (read(wake[0], bytes, sizeof bytes) > 0)
        continue;
}

void tt_interrupt_while_idle(tt_idle_fn fn, void *ctx)
{
    idle = fn;
    idle_ctx = ctx;
}

/* Milliseconds until poll should come back by itself, -1: not at all. */
static int idle_time(void)
{
    double seconds = idle != NULL ? idle(idle_ctx) : -1;
    return seconds < 0 ? -1 : seconds < 0.001 ? 1 : seconds < 60 ? (int)(seconds * 1000) : 60000;
}

tt_input_event tt_interrupt_wait(int fd)
{
    for (;;) {
        drain();
        if (tt_interrupted())
            return TT_INPUT_INTERRUPTED;
        if (resumed) {
            resumed = 0;
            return TT_INPUT_RESUMED;
        }
        if (resized) {
            resized = 0;
            return TT_INPUT_RESIZED;
        }
        struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = wake[0], .events = POLLIN}};
        int n = poll(fds, 2, idle_time());
        if (n < 0 && errno != EINTR)
            return TT_INPUT_READY; /* the read that follows tells what is wrong */
        if (n > 0 && fds[1].revents == 0 && fds[0].revents != 0)
            return TT_INPUT_READY;
    }
}
