# An installation from a hub that is killed at 200 random moments and meets a full disk at every write:
# continued each time, to the same bytes, and nothing that was finished is fetched again.
#
# HUB_KILLS (200); HUB_SEED repeats a run.
. tests/support/testlib.sh

test=$BUILD/tests/repack/hub_kill_test
[ -x "$test" ] || { echo "$test is not there: run make tests"; exit 1; }
HUB_KILLS=${HUB_KILLS:-200} HUB_FULL=100000 "$test" || fail "see above"
