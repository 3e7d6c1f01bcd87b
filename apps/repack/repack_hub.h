/* repack_hub.h: installing from a hub: catalogue, plan, installation, discarding.
 *
 * Owns:      what is taken from the environment; what is told of plan and result.
 * Not here:  how it is done (repack/hub_install.h).
 * Laws:      the token is never printed.
 * Threads:   one.
 */
#ifndef TT_APP_REPACK_HUB_H
#define TT_APP_REPACK_HUB_H

#include "repack/origin.h"
#include "repack/repack_options.h"

TT_MUST_CHECK tt_status repack_list_models(bool json, tt_error *err);
TT_MUST_CHECK tt_status repack_hub_install(const repack_options *o, tt_error *err);
TT_MUST_CHECK tt_status repack_hub_plan(const repack_options *o, tt_error *err);
/* What programs are told of an install's source. */
json_t *repack_origin_json(const tt_origin *o);

#endif
