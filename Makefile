# TinyTitan. Plain `make` builds the library and the programs into build/. `make help` lists the rest.
# A new source, program, test or fuzz target is found by its place in the tree; nothing is listed here.

# CROSS=aarch64-linux-gnu- builds for that machine with its compiler, into a folder of its own.
CROSS   ?=
ifneq ($(filter default undefined,$(origin CC)),)
CC      := $(CROSS)gcc
endif
ifneq ($(filter default undefined,$(origin AR)),)
AR      := $(CROSS)ar
endif
ifneq ($(filter default undefined,$(origin CXX)),)
CXX     := $(CROSS)g++
endif
BUILD   ?= $(if $(CROSS),build/$(CROSS:%-=%),build)
PREFIX  ?= /usr/local
DESTDIR ?=
SAN     ?=
WERROR  ?= -Werror
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
VERSION := $(shell sed -n 's/^.define TT_VERSION_STRING "\(.*\)"/\1/p' include/tinytitan/tinytitan.h)
SOVERSION := 0

# As many jobs as cores unless -j was given.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(JOBS)
endif
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

# Quiet unless V=1: $(call say,VERB) prints one line for a target.
ifeq ($(V),1)
Q   :=
say :=
else
Q   := @
say = @printf '  %-7s %s\n' '$(1)' '$(2)';
endif

# ---- flags ----

PKGS    := jansson yajl libpcre2-8 libutf8proc libcrypto liburing
# Debian keeps the descriptions of another machine's libraries beside those libraries.
CROSS_PC := /usr/lib/$(CROSS:%-=%)/pkgconfig:/usr/share/pkgconfig
PKG_CONFIG ?= $(if $(CROSS),PKG_CONFIG_LIBDIR=$(CROSS_PC) )pkg-config
# Debian has libevent's headers for one machine at a time: the server is built on the machine it is for.
NATIVE_PKGS := $(if $(CROSS),,libevent_core)
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) libedit libcurl $(NATIVE_PKGS) cmocka 2>/dev/null)
LIBS    := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null) -lm -lpthread

# No -march and no -ffast-math: one binary starts anywhere, and the scalar reference means what it says.
# -ffp-contract=off keeps a compiler from fusing a*b+c where the source does not.
WARN    := -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-unused-parameter
CFLAGS  ?= -O2 -g
BASE_CFLAGS := -std=gnu11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing \
               -Iinclude -Isrc $(PKG_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS  := $(BASE_CFLAGS) $(CFLAGS) $(WARN) -MMD -MP
ALL_LDFLAGS := $(LDFLAGS) $(SAN)

# The instruction set of a file follows from its name; every other file is plain for the machine's ABI.
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
ISA_avx2   := -mavx2 -mfma -mf16c
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq
ISA_avxvnni := $(ISA_avx2) -mavxvnni
ISA_avx512vnni := $(ISA_avx512) -mavx512vnni
ISA_amx    := $(ISA_avx512vnni) -mamx-tile -mamx-int8
ISA_neon_dotprod := -march=armv8.2-a+dotprod
LEVELS_x86_64  := avx2 avx512 avxvnni avx512vnni amx
LEVELS_aarch64 := neon neon_dotprod
ISA_LEVELS := $(LEVELS_x86_64) $(LEVELS_aarch64)
isa_of = $(strip $(foreach l,$(ISA_LEVELS),$(if $(filter %_$(l).c,$(1)),$(ISA_$(l)))))
# Fuzzers feed parsers, not kernels: instrumented for them, a kernel file takes a minute to compile.
san_of = $(if $(and $(FUZZING),$(call isa_of,$(1))),,$(SAN))

# ---- what there is ----

LIB_SRC := $(sort $(shell find src -name '*.c'))
LIB_SRC := $(filter-out $(foreach l,$(filter-out $(LEVELS_$(MACHINE)),$(ISA_LEVELS)),%_$(l).c),$(LIB_SRC))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o)

LIB_A   := $(BUILD)/lib/libtinytitan.a
SO_FILE := libtinytitan.so.$(VERSION)
SO_NAME := libtinytitan.so.$(SOVERSION)
LIB_SO  := $(BUILD)/lib/libtinytitan.so
PC_FILE := $(BUILD)/lib/tinytitan.pc

# A folder of apps/ with sources is an archive for its tests, and with a main a program; its name is here.
PROGRAMS    := $(foreach d,$(wildcard apps/*),$(if $(wildcard $(d)/*.c),$(notdir $(d))))
NATIVE_ONLY := $(if $(CROSS),server)
PROGRAMS    := $(filter-out $(NATIVE_ONLY),$(PROGRAMS))
NAME_cli    := TinyTitanCLI
NAME_repack := TinyTitanRepack
NAME_bench  := TinyTitanBench
NAME_server := TinyTitanServer
NAME_connect := tinytitan-connect
LIBS_cli    := -ledit
# Only what installs from a hub asks for it: the archive's other users do not pull those objects.
LIBS_repack := $(shell $(PKG_CONFIG) --libs libcurl 2>/dev/null)
LIBS_server := $(shell $(PKG_CONFIG) --libs libevent_core 2>/dev/null)
MAINS := $(notdir $(patsubst %/,%,$(sort $(dir $(shell grep -ls '^int main\b' $(PROGRAMS:%=apps/%/*.c))))))
BINS := $(foreach p,$(MAINS),$(BUILD)/bin/$(or $(NAME_$(p)),$(error apps/$(p) has no NAME_$(p) in the Makefile)))
APP_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $(PROGRAMS:%=apps/%/*.c)))

# Tests, and programs that script tests use.
TEST_SRC := $(sort $(shell find tests -name node_modules -prune -o -name '*_test.c' -print -o -name '*_program.c' -print 2>/dev/null))
TEST_SRC := $(filter-out $(NATIVE_ONLY:%=tests/%/%),$(TEST_SRC))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
SUPPORT_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/*.c))

FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SRC := $(filter-out $(if $(NATIVE_ONLY),$(shell grep -ls '"$(NATIVE_ONLY)/' tests/fuzz/*.c)),$(FUZZ_SRC))
FUZZ_REPLAY := $(FUZZ_SRC:%.c=$(BUILD)/%_replay)
FUZZ_BUILD := build/fuzz
FUZZ_BIN := $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/bin/%)
FUZZ_SECONDS ?= 3
CLANG   := $(shell command -v clang-14 || command -v clang)

MAN_SRC := $(sort $(wildcard docs/man/*.scd))
MAN     := $(MAN_SRC:docs/man/%.scd=$(BUILD)/man/%)

.PHONY: all lib programs tests man demo check check-asan check-ubsan check-tsan check-fuzz check-clients \
        check-long check-aarch64 lint format install uninstall clean help fuzz-programs fuzz-done test-programs test-cmocka FORCE
all: lib programs
lib: $(LIB_A) $(LIB_SO) $(PC_FILE)
programs: $(BINS)
man: $(MAN)
tests: $(TEST_BIN) $(FUZZ_REPLAY)

help:
	@printf '%s\n' \
	  'make                  library and programs into build/' \
	  'make demo             install missing packages, build, convert the shipped checkpoint, tell a story' \
	  'make check            build everything and pass every test (Debian packages only)' \
	  'make check-asan       the tests under AddressSanitizer; also check-ubsan, check-tsan' \
	  'make check-fuzz       every fuzz target for FUZZ_SECONDS=60 (needs clang)' \
	  'make check-long       the tests that take minutes' \
	  'make check-aarch64    kernels and a story, built by a cross compiler and run under qemu; SUITE=1: every test' \
	  'make check-clients    the tests that need npm packages' \
	  'make lint             clang-format, clang-tidy, cppcheck, our layer and header checks' \
	  'make format           clang-format in place' \
	  'make install          PREFIX=/usr/local DESTDIR=; uninstall takes the same' \
	  'make clean            remove BUILD' \
	  '' \
	  'CROSS=aarch64-linux-gnu- builds for that machine into build/aarch64-linux-gnu.' \
	  'V=1 shows commands. BUILD=, CC=, CFLAGS=, LDFLAGS=, SAN= (sanitizer flags), WERROR= as usual.' \
	  'tests/run --help says how to run some of the tests.'

# ---- compiling ----

# Changes when compiler or flags change, and everything is built again then.
STAMP := $(BUILD)/flags
STAMP_TEXT := $(CC) $(ALL_CFLAGS) $(SAN) $(ISA_amx) $(ISA_neon_dotprod) $(ALL_LDFLAGS) $(LIBS)
$(STAMP): FORCE
	@$(PKG_CONFIG) --exists $(PKGS) libedit libcurl $(NATIVE_PKGS) || \
	  { echo 'Libraries are missing. Run: tools/install-deps$(if $(CROSS), --aarch64)' >&2; exit 1; }
	@mkdir -p $(@D)
	@text='$(STAMP_TEXT)'"$$($(CC) -dumpfullversion -dumpversion)"; \
	  [ "$$text" = "$$(cat $@ 2>/dev/null)" ] || printf '%s\n' "$$text" >$@

$(BUILD)/obj/%.o: %.c $(STAMP)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) $(call san_of,$<) $(EXTRA) $(call isa_of,$<) -c $< -o $@

# Data that is compiled in as it lies.
$(BUILD)/obj/src/repack/catalogue.o: src/repack/catalogue.json
$(BUILD)/obj/apps/server/chat_page.o: apps/server/chat_page.html

# Programs and tests may include the headers of a program; the library may not.
$(BUILD)/obj/apps/%.o $(BUILD)/obj/tests/%.o: EXTRA := -Iapps -Itests

$(LIB_A): $(LIB_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $(LIB_OBJ)

# Conversion is no part of the library's door.
SO_OBJ := $(filter-out $(BUILD)/obj/src/repack/%,$(LIB_OBJ))
$(LIB_SO): $(SO_OBJ) src/api/tinytitan.map
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) -shared -Wl,-soname,$(SO_NAME) -Wl,--version-script=src/api/tinytitan.map $(SO_OBJ) \
	    $(ALL_LDFLAGS) $(LIBS) -o $(@D)/$(SO_FILE)
	$(Q)ln -sf $(SO_FILE) $(@D)/$(SO_NAME)
	$(Q)ln -sf $(SO_NAME) $@

# Carries the prefix, so it is looked at every time.
$(PC_FILE): src/api/tinytitan.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@PKGS@|$(PKGS)|' $< >$@

# A program's objects as an archive: its tests link what they use, and bring a main of their own.
define archive
OBJ_$(1) := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard apps/$(1)/*.c))
$(BUILD)/lib/apps/$(1).a: $$(OBJ_$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call say,AR,$$@)$$(AR) rcs $$@ $$(OBJ_$(1))
endef
$(foreach p,$(PROGRAMS),$(eval $(call archive,$(p))))
define app_test
$(BUILD)/tests/$(1)/%_$(2): $(BUILD)/obj/tests/$(1)/%_$(2).o $(BUILD)/lib/apps/$(1).a $$(SUPPORT_OBJ) $$(LIB_A) | test-cmocka
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(CC) $$(filter %.o,$$^) $(BUILD)/lib/apps/$(1).a $$(LIB_A) $$(ALL_LDFLAGS) $$(LIBS) $$(LIBS_$(1)) -lcmocka -o $$@
endef
$(foreach p,$(PROGRAMS),$(foreach k,test program,$(eval $(call app_test,$(p),$(k)))))

define program
$(BUILD)/bin/$(NAME_$(1)): $$(OBJ_$(1)) $$(LIB_A)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(CC) $$(OBJ_$(1)) $$(LIB_A) $$(ALL_LDFLAGS) $$(LIBS) $$(LIBS_$(1)) -o $$@
endef
$(foreach p,$(MAINS),$(eval $(call program,$(p))))

$(BUILD)/tests/%_test: $(BUILD)/obj/tests/%_test.o $(SUPPORT_OBJ) $(LIB_A) | test-cmocka
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(filter %.o,$^) $(LIB_A) $(ALL_LDFLAGS) $(LIBS) -lcmocka -o $@

test-cmocka:
	@$(PKG_CONFIG) --exists cmocka || \
	  { echo 'cmocka is missing. Run: tools/install-deps$(if $(CROSS), --aarch64)' >&2; exit 1; }

# The corpus of a fuzz target through the target, with any compiler and under any sanitizer. What programs read
# themselves is fuzzed too, so their archives are there to take from.
APPS_A := $(PROGRAMS:%=$(BUILD)/lib/apps/%.a)
$(BUILD)/tests/fuzz/fuzz_%_replay: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/obj/tests/fuzz/replay.o $(APPS_A) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(filter %.o,$^) $(APPS_A) $(LIB_A) $(ALL_LDFLAGS) $(LIBS) $(LIBS_repack) $(LIBS_server) -o $@

# libFuzzer programs live in a build of their own: the whole library is instrumented.
FUZZ_SAN := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
fuzz-programs:
	$(Q)[ -n '$(CLANG)' ] || { echo 'No clang, so no fuzzing. For it: tools/install-deps --fuzz'; exit 0; }; \
	  $(MAKE) BUILD=$(FUZZ_BUILD) FUZZING=1 CC=$(notdir $(CLANG)) CFLAGS='-O1 -g' SAN='$(FUZZ_SAN)' \
	    $(FUZZ_SRC:tests/fuzz/%.c=$(FUZZ_BUILD)/bin/%) fuzz-done
fuzz-done:
	@true
$(BUILD)/bin/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(APPS_A) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(filter %.o,$^) $(APPS_A) $(LIB_A) $(ALL_LDFLAGS) -fsanitize=fuzzer $(LIBS) $(LIBS_repack) $(LIBS_server) -o $@

$(BUILD)/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	@command -v scdoc >/dev/null || { echo 'scdoc is missing. Run: tools/install-deps' >&2; exit 1; }
	$(call say,MAN,$@)scdoc <$< >$@

# ---- demo and tests ----

demo:
	+$(Q)BUILD=$(BUILD) tools/demo

# Everything that is built, then everything that is run; the runner's line is the last one.
test-programs: all tests man
# Tests that call make build with the same flags; without MAKEFLAGS they start with jobs of their own.
RUN := BUILD=$(BUILD) CC='$(CC)' CXX='$(CXX)' CFLAGS='$(CFLAGS)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' \
       WERROR='$(WERROR)' MAKEFLAGS= MAKELEVEL=0 tests/run --jobs $(JOBS)
check:
	$(Q)$(MAKE) BUILD=$(BUILD) test-programs
	$(Q)$(MAKE) fuzz-programs
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_BIN=$(FUZZ_BUILD)/bin $(RUN) $(TESTS)

# Under a sanitizer: the same tests in a build of their own. Programs run under it too, by the script tests.
SAN_CFLAGS := -O1 -g -fno-omit-frame-pointer
define sanitized
check-$(1):
	$$(Q)$$(MAKE) BUILD=build/$(1) CFLAGS='$$(SAN_CFLAGS)' SAN='$(2)' test-programs
	$$(Q)$(3) TEST_TIMEOUT=1800 SANITIZED=1 $$(subst BUILD=$$(BUILD),BUILD=build/$(1),$$(RUN)) --no-fuzz $$(TESTS)
endef
# detect_stack_use_after_return stays off: with it gcc 12 places 64-byte vectors on 32-byte addresses.
$(eval $(call sanitized,asan,-fsanitize=address,ASAN_OPTIONS=strict_string_checks=1))
$(eval $(call sanitized,ubsan,-fsanitize=undefined -fno-sanitize-recover=all,UBSAN_OPTIONS=print_stacktrace=1))
$(eval $(call sanitized,tsan,-fsanitize=thread,TSAN_OPTIONS=halt_on_error=1))

check-fuzz: FUZZ_SECONDS := $(if $(filter command line environment,$(origin FUZZ_SECONDS)),$(FUZZ_SECONDS),60)
check-fuzz:
	$(Q)$(MAKE) fuzz-programs
	$(Q)REQUIRE_FUZZ=1 FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_BIN=$(FUZZ_BUILD)/bin $(RUN) --fuzz $(TESTS)

check-clients: all tests
	$(Q)TEST_TIMEOUT=1200 $(RUN) --clients $(TESTS)

# One after the other: each keeps all cores busy by itself.
check-long: test-programs
	$(Q)TEST_TIMEOUT=7200 $(RUN) --jobs 1 --long $(TESTS)

# Another machine: built by a cross compiler, run under an emulator.
check-aarch64:
	$(Q)JOBS=$(JOBS) BUILD=$(BUILD) tests/aarch64 $(if $(SUITE),--suite) $(TESTS)

# ---- lint ----

C_FILES := $(sort $(shell find include src apps tests examples lab -name node_modules -prune -o -name '*.[ch]' -print 2>/dev/null))
lint: $(BUILD)/compile_commands.json
	$(Q)CC='$(CC)' CXX='$(CXX)' tools/check_layers
	$(Q)BUILD=$(BUILD) tools/lint $(C_FILES)
format:
	$(Q)clang-format -i $(C_FILES)

# What clang-tidy and editors ask for: how each file is compiled.
TIDY_SRC := $(LIB_SRC) $(wildcard $(PROGRAMS:%=apps/%/*.c)) $(TEST_SRC) $(wildcard tests/support/*.c) $(FUZZ_SRC)
comma := ,
define compile_command
  { "directory": "$(CURDIR)", "file": "$(1)", "command": "cc $(BASE_CFLAGS) -Iapps -Itests $(call isa_of,$(1)) -c $(1)" }
endef
$(BUILD)/compile_commands.json: $(STAMP) $(TIDY_SRC)
	$(file >$@,[)
	$(foreach f,$(TIDY_SRC),$(file >>$@,$(call compile_command,$(f))$(if $(filter-out $(lastword $(TIDY_SRC)),$(f)),$(comma))))
	$(file >>$@,])
	@true

# ---- install ----

D := $(DESTDIR)$(PREFIX)
DOC_DIR := $(D)/share/doc/tinytitan
UNIT_DIR := $(D)/lib/systemd/user
MAN_INSTALL := $(foreach m,$(MAN),$(D)/share/man/man$(subst .,,$(suffix $(m)))/$(notdir $(m)))
install: all man
	$(Q)install -d $(D)/bin $(D)/lib/pkgconfig $(D)/include/tinytitan $(DOC_DIR)
	$(if $(BINS),$(Q)install -m 755 $(BINS) $(D)/bin/)
	$(Q)install -m 644 include/tinytitan/tinytitan.h $(D)/include/tinytitan/
	$(Q)install -m 644 $(LIB_A) $(D)/lib/
	$(Q)install -m 755 $(BUILD)/lib/$(SO_FILE) $(D)/lib/
	$(Q)ln -sf $(SO_FILE) $(D)/lib/$(SO_NAME)
	$(Q)ln -sf $(SO_NAME) $(D)/lib/libtinytitan.so
	$(Q)install -m 644 $(PC_FILE) $(D)/lib/pkgconfig/
	$(Q)for m in $(MAN); do install -D -m 644 $$m $(D)/share/man/man$${m##*.}/$${m##*/} || exit 1; done
	$(Q)install -m 644 README.md LICENSE $(wildcard docs/*.md) $(DOC_DIR)/
	$(Q)install -d $(UNIT_DIR)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' packaging/tinytitan-server.service >$(UNIT_DIR)/tinytitan-server.service
uninstall:
	$(Q)rm -f $(foreach b,$(BINS),$(D)/bin/$(notdir $(b))) $(D)/include/tinytitan/tinytitan.h $(MAN_INSTALL) \
	    $(D)/lib/libtinytitan.a $(D)/lib/$(SO_FILE) $(D)/lib/$(SO_NAME) $(D)/lib/libtinytitan.so \
	    $(D)/lib/pkgconfig/tinytitan.pc $(UNIT_DIR)/tinytitan-server.service
	$(Q)rm -rf $(DOC_DIR)
	$(Q)rmdir $(D)/include/tinytitan 2>/dev/null || true

clean:
	rm -rf $(BUILD)

DEPS := $(LIB_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(SUPPORT_OBJ:.o=.d) $(TEST_SRC:%.c=$(BUILD)/obj/%.d) \
        $(FUZZ_SRC:%.c=$(BUILD)/obj/%.d) $(BUILD)/obj/tests/fuzz/replay.d
-include $(DEPS)
# Objects stay when a chain of rules made them.
.SECONDARY:
