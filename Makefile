# TinyTitan. Plain `make` builds the library and the programs into build/. See CONTRIBUTING.md.
#
#   make                     library and programs
#   make demo                install missing packages, build, convert the shipped checkpoint, verify it, tell a story
#   make check               build and pass every test (Debian packages only)
#   make check-asan|-ubsan|-tsan   the tests under a sanitizer
#   make lint                formatting, static analysis, our own layer and header checks
#   make install PREFIX=/usr/local DESTDIR=

ifeq ($(origin CC),default)
CC      := gcc
endif
AR      ?= ar
BUILD   ?= build
PREFIX  ?= /usr/local
SAN     ?=
VERSION := $(shell sed -n 's/^.define TT_VERSION_STRING "\(.*\)"/\1/p' include/tinytitan/tinytitan.h)

PKGS    := jansson yajl libpcre2-8 libutf8proc libcrypto
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) libedit cmocka 2>/dev/null)
LIBS    := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -lpthread

# No -march and no -ffast-math: one binary starts anywhere, and the scalar reference means what it says.
# -ffp-contract=off keeps a compiler from fusing a*b+c where the source does not.
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-unused-parameter
CFLAGS  ?= -O2 -g
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE $(CFLAGS) $(WARN) -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing \
              -Iinclude -Isrc $(PKG_CFLAGS) $(SAN) -MMD -MP
ALL_LDFLAGS := $(LDFLAGS) $(SAN)

UNAME_M := $(shell uname -m)
LIB_SRC := $(sort $(shell find src -name '*.c' -not -path 'src/backend/cpu/*'))
LIB_SRC += src/backend/cpu/dispatch.c
ifeq ($(UNAME_M),x86_64)
LIB_SRC += $(filter-out src/backend/cpu/dispatch.c,$(wildcard src/backend/cpu/*.c))
endif
LIB_SRC := $(sort $(wildcard $(LIB_SRC)))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o)
$(BUILD)/obj/src/backend/cpu/%avx2.o: ISA := -mavx2 -mfma -mf16c
$(BUILD)/obj/src/backend/cpu/%avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c

LIB_A   := $(BUILD)/lib/libtinytitan.a
LIB_SO  := $(BUILD)/lib/libtinytitan.so

# A folder of apps/ is a program; its name is here.
PROGRAMS := $(foreach d,$(wildcard apps/*),$(if $(wildcard $(d)/*.c),$(notdir $(d))))
NAME_cli := TinyTitanCLI
NAME_repack := TinyTitanRepack
NAME_bench := TinyTitanBench
BINS := $(foreach p,$(PROGRAMS),$(BUILD)/bin/$(NAME_$(p)))
LIBS_cli := -ledit

TEST_SRC := $(sort $(shell find tests -name '*_test.c' 2>/dev/null))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
SUPPORT_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/*.c))

.PHONY: all lib programs tests check demo clean
all: lib programs
lib: $(LIB_A) $(LIB_SO)
programs: $(BINS)
tests: $(TEST_BIN)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ISA) -c $< -o $@

$(LIB_A): $(LIB_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(LIB_SO): $(LIB_OBJ) src/api/tinytitan.map
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libtinytitan.so.0 -Wl,--version-script=src/api/tinytitan.map $(LIB_OBJ) \
	    $(ALL_LDFLAGS) $(LIBS) -o $@

define program
$(BUILD)/bin/$(NAME_$(1)): $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard apps/$(1)/*.c)) $(LIB_A)
	@mkdir -p $$(@D)
	$$(CC) $$^ $$(ALL_LDFLAGS) $$(LIBS) $$(LIBS_$(1)) -o $$@
endef
$(foreach p,$(PROGRAMS),$(eval $(call program,$(p))))

$(BUILD)/tests/%_test: $(BUILD)/obj/tests/%_test.o $(SUPPORT_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(CC) $^ $(ALL_LDFLAGS) $(LIBS) -lcmocka -o $@

clean:
	rm -rf $(BUILD)

DEPS := $(LIB_OBJ:.o=.d) $(SUPPORT_OBJ:.o=.d) $(TEST_SRC:%.c=$(BUILD)/obj/%.d)
-include $(DEPS)
