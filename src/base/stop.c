#include "base/stop.h"

#include <signal.h>

static volatile sig_atomic_t came;

static void on_signal(int sig)
{
    came = sig;
}

static void set(int sig, void (*handler)(int))
{
    struct sigaction sa = {.sa_handler = handler,
                           .sa_flags = SA_RESTART | (handler != SIG_IGN ? (int)SA_RESETHAND : 0)};
    sigemptyset(&sa.sa_mask);
    sigaction(sig, &sa, NULL);
}

void tt_stop_catch(void)
{
    struct sigaction old;
    set(SIGINT, on_signal);
    set(SIGTERM, on_signal);
    if (sigaction(SIGHUP, NULL, &old) != 0 || old.sa_handler != SIG_IGN)
        set(SIGHUP, on_signal);
    set(SIGPIPE, SIG_IGN);
    set(SIGXFSZ, SIG_IGN);
}

int tt_stop_signal(void)
{
    return came;
}

const volatile int *tt_stop_flag(void)
{
    return &came;
}

const char *tt_stop_name(int sig)
{
    return sig == SIGINT    ? "SIGINT"
           : sig == SIGTERM ? "SIGTERM"
           : sig == SIGHUP  ? "SIGHUP"
                            : "a signal";
}

bool tt_stop_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return came == 0;
}
