/* clock.h: monotonic seconds.
 *
 * Owns:      one function.
 * Not here:  calendar time.
 * Laws:      never goes backwards within a boot.
 * Threads:   any.
 */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

double tt_now(void);

#endif
