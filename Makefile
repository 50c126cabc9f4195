# Makefile - builds, runs and tests hilo. Debian 12 is the reference system.
#
#   make            build what is here; touches nothing outside build/
#   make run        install what is missing, build, start hilod in the foreground
#   make test       install what is missing, build, run every test
#   make test-long  the same with full counts
#   make soak       kills servers and clients under load for SOAK_SECONDS, and proves that ids hold
#   make mutants    breaks one guard after the other: a test has to notice
#   make deps       install everything; deps-run and deps-test are its parts
#   make docs       what is made from the table of options: sample configuration, manual
#   make lint       format, static analysis, layers; needs deps
#   make fuzz       fuzzes the parsers, FUZZ_SECONDS each
#   make bench      grants of hilod beside Redis; bench-client: ids of libhilo beside others
#   make install    DESTDIR and PREFIX are honoured
#
# VARIANT=release|debug|asan|tsan; the release is in build/, the others in build/VARIANT/.

VARIANT ?= release
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc

VARIANTS = release debug asan tsan
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT is '$(VARIANT)', but has to be one of: $(VARIANTS))
endif

OUT = $(if $(filter release,$(VARIANT)),build,build/$(VARIANT))
OBJ = $(OUT)/obj

FLAGS_release = -O2 -D_FORTIFY_SOURCE=2
FLAGS_debug   = -O0
FLAGS_asan    = -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FLAGS_tsan    = -O1 -fsanitize=thread -fno-omit-frame-pointer

WARNINGS = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
           -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef \
           -Wformat=2 -Wvla
CFLAGS  ?= -g
LDFLAGS ?=
ALL_CFLAGS  = -std=gnu11 -D_GNU_SOURCE $(FLAGS_$(VARIANT)) $(WARNINGS) -fstack-protector-strong \
              -pthread $(CFLAGS)
ALL_LDFLAGS = $(filter -fsanitize=% -fno-sanitize%,$(FLAGS_$(VARIANT))) -pthread $(LDFLAGS)

PKGS       = libevent_core sqlite3 libconfuse
PKG_CFLAGS = $(shell pkg-config --cflags $(PKGS))
PKG_LIBS   = $(shell pkg-config --libs $(PKGS))
LIB_CFLAGS = $(shell pkg-config --cflags libevent_core jansson)
LIB_LIBS   = $(shell pkg-config --libs libevent_core)

# What servers and clients share; then what only one of them needs. All of it is pure.
SHARED_SRC = common/crc.c common/error.c common/lane.c common/name.c common/number.c common/run.c
COMMON_SRC = $(SHARED_SRC) common/alloc.c common/record.c common/reply.c \
             common/resp.c
# libhilo, and the command line beside it.
LIB_SRC    = $(SHARED_SRC) common/cache.c common/reply_parse.c common/request_write.c \
             common/roster.c client/ask.c client/clock.c client/dispatch.c \
             client/greeting.c client/handle.c client/hot.c client/local.c \
             client/options.c client/resolve.c client/seen.c client/seq.c client/server.c \
             client/stats.c client/take.c client/text.c
# All of hilod but main, so that tests can link it.
SERVER_SRC = server/address.c server/batch.c server/batcher.c server/buffer.c \
             server/catalog.c server/clients.c server/clock.c server/cmd_backup.c server/cmd_command.c \
             server/cmd_grant.c server/cmd_info.c server/cmd_redis.c server/cmd_seq.c \
             server/command.c server/conn.c server/crew.c server/datadir.c \
             server/file.c server/guard.c server/listener.c server/log.c server/login.c server/loop.c \
             server/option_table.c server/options.c server/options_file.c \
             server/options_text.c server/password.c server/random.c server/reconcile.c server/relane.c \
             server/request.c server/seal.c server/seq.c server/seq_admin.c server/server.c server/settings.c \
             server/sock.c server/store.c server/store_memory.c server/store_sqlite.c \
             server/systemd.c server/tokens.c server/witness.c
CLI_SRC    = client/cli_admin.c client/cli_doctor.c client/cli_look.c client/cli_main.c \
             client/cli_members.c client/cli_take.c client/link.c
UNIT_TESTS = alloc_test cache_test crew_test lane_test options_test power_test record_test reply_test resp_test seq_test store_test

FUZZERS    = request config reply

COMMON_OBJ = $(COMMON_SRC:%.c=$(OBJ)/%.o)
CLI_OBJ    = $(CLI_SRC:%.c=$(OBJ)/pic/%.o)
CLIENT_COMMON = $(filter-out $(SHARED_SRC),$(filter common/%,$(LIB_SRC)))
CLIENT_COMMON_OBJ = $(CLIENT_COMMON:%.c=$(OBJ)/%.o)
LIB_OBJ    = $(LIB_SRC:%.c=$(OBJ)/pic/%.o)
SERVER_OBJ = $(SERVER_SRC:%.c=$(OBJ)/%.o)
UNIT_BIN   = $(UNIT_TESTS:%=$(OUT)/tests/%)
FUZZ_BIN   = $(FUZZERS:%=$(OUT)/tests/fuzz-%)

.PHONY: all run client-bins deps-fuzz fuzz run-fuzz test test-long test-bins unit-bins deps deps-run deps-test docs lint layers bench bench-wire bench-client bench-compare bench-growth bench-latency bench-gate deps-compare install uninstall clean
.DELETE_ON_ERROR:

LIB_VERSION = $(shell sed -n 's/^.define HILO_VERSION "\(.*\)"/\1/p' common/version.h)
SONAME      = libhilo.so.0

all: $(OUT)/hilod $(OUT)/hilo $(OUT)/libhilo.so $(OUT)/libhilo.a

$(OUT)/hilod: $(OBJ)/server/main.o $(SERVER_OBJ) $(COMMON_OBJ)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS)

# common is pure: it sees no other headers than its own and the compiler's.
$(OBJ)/common/%.o: common/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -Icommon -c -o $@ $<

$(OBJ)/server/%.o: server/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(PKG_CFLAGS) -MMD -MP -Icommon -Iserver -c -o $@ $<

# The library shows hilo_* and nothing else, shared or static.
$(OBJ)/pic/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LIB_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -Icommon \
	    $(if $(filter client/%,$<),-Iclient) -c -o $@ $<

$(OUT)/libhilo.so: $(LIB_OBJ) client/libhilo.map
	$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,-z,nodelete -Wl,-z,defs \
	    -Wl,--version-script=client/libhilo.map -o $@ $(LIB_OBJ) $(LIB_LIBS)
	ln -sf libhilo.so $(OUT)/$(SONAME)

$(OUT)/libhilo.a: $(LIB_OBJ)
	$(LD) -r -o $(OBJ)/libhilo.o $^
	objcopy --localize-hidden $(OBJ)/libhilo.o
	rm -f $@
	$(AR) rcs $@ $(OBJ)/libhilo.o

# The command line knows some of the library's own modules, so it has them built in.
$(OUT)/hilo: $(CLI_OBJ) $(LIB_OBJ)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIB_LIBS) $(shell pkg-config --libs jansson)

$(OBJ)/tests/%.o: tests/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(PKG_CFLAGS) -MMD -MP -Icommon -Iserver -Itests -Itests/fuzz -c -o $@ $<

# What tests the library is a program like any other: it sees hilo.h and the library.
$(OUT)/tests/driver: tests/driver.c common/error.c $(OUT)/libhilo.a Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Icommon -Iclient $(ALL_LDFLAGS) -o $@ tests/driver.c common/error.c \
	    $(OUT)/libhilo.a $(LIB_LIBS)

# One module of the library by itself.
$(OUT)/tests/hot_test: tests/hot_test.c $(OBJ)/pic/client/hot.o $(OBJ)/pic/common/run.o \
                       $(OBJ)/pic/common/crc.o $(OBJ)/pic/common/lane.o Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Icommon -Iclient $(ALL_LDFLAGS) -o $@ $(filter-out Makefile,$^) -lcmocka

$(OUT)/tests/callbacks: tests/callbacks.c $(OUT)/libhilo.a Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Icommon -Iclient $(ALL_LDFLAGS) -o $@ tests/callbacks.c \
	    $(OUT)/libhilo.a $(LIB_LIBS) -lcmocka

$(OUT)/tests/%: $(OBJ)/tests/%.o $(SERVER_OBJ) $(COMMON_OBJ) $(CLIENT_COMMON_OBJ)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS) -lcmocka

# Files whose power fails.
$(OUT)/tests/power_test: $(OBJ)/tests/power.o

# A world in one process: hilod without its clock, its log and its random bits.
SIM_OBJ = $(patsubst %,$(OBJ)/tests/sim/%.o,client disk ledger node world) $(OBJ)/tests/power.o \
          $(filter-out $(patsubst %,$(OBJ)/server/%.o,clock log random),$(SERVER_OBJ)) \
          $(COMMON_OBJ) $(CLIENT_COMMON_OBJ) $(OBJ)/pic/client/seen.o

$(OBJ)/tests/sim/%.o: tests/sim/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(PKG_CFLAGS) -MMD -MP -Icommon -Iserver -Iclient -Itests -Itests/sim -c -o $@ $<

$(OUT)/tests/sim: $(SIM_OBJ)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS)

.SECONDARY:
-include $(wildcard $(OBJ)/*/*.d $(OBJ)/*/*/*.d $(OBJ)/pic/*/*.d)

# --- packages -----------------------------------------------------------------------------

DEPS_RUN  = gcc make pkg-config libc6-dev libevent-dev libsqlite3-dev libconfuse-dev \
            libjansson-dev redis-tools
DEPS_TEST = $(DEPS_RUN) g++ libcmocka-dev python3 python3-redis sqlite3 strace procps patch valgrind clang-format \
            cppcheck mandoc systemd ruby-redis php-cli php-redis libredis-perl golang-go \
            golang-github-gomodule-redigo-dev ca-certificates \
            $(if $(shell command -v npm),,nodejs npm)

# The packages of a list that are not installed.
missing = $(shell for p in $(1); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | \
          grep -q 'ok installed' || echo $$p; done)
SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# Says what it does, then does it; nothing when nothing is missing.
define apt_install
	@set -e; missing="$(strip $(call missing,$(1)))"; if [ -n "$$missing" ]; then \
	    echo "missing packages; running:"; \
	    echo "  $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends $$missing"; \
	    $(SUDO) apt-get update -qq; \
	    DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing; \
	fi
endef

deps: deps-test
deps-run:
	$(call apt_install,$(DEPS_RUN))
deps-test:
	$(call apt_install,$(DEPS_TEST))

# --- run and test -------------------------------------------------------------------------

# The packages have to be there before pkg-config is asked, hence the second make.
run: deps-run
	@$(MAKE) --no-print-directory all
	@sh tests/hints.sh
	@exec build/hilod --data ./hilo-data

$(OUT)/tests/%.so: tests/%.c Makefile
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 $(WARNINGS) -shared -fPIC -o $@ $<

unit-bins: $(UNIT_BIN)
# Redis clients of other languages; Debian has the libraries, Node.js has its own registry.
build/clients/take-go: tests/clients/take.go
	@mkdir -p $(@D)
	cd $(@D) && CGO_ENABLED=0 GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$(abspath build/go) \
	    go build -o take-go $(abspath $<)

build/clients/node: tests/clients/package.json tests/clients/package-lock.json
	@rm -rf $@ && mkdir -p $@
	cp tests/clients/package.json tests/clients/package-lock.json tests/clients/.npmrc $@
	cd $@ && npm ci --ignore-scripts --no-progress

client-bins: build/clients/take-go build/clients/node

test-bins: all unit-bins $(OUT)/tests/driver $(OUT)/tests/callbacks $(OUT)/tests/hot_test $(FUZZ_BIN) $(OUT)/manual $(OUT)/tests/disk.so $(OUT)/tests/faults.so $(OUT)/tests/fs.so $(OUT)/tests/nowipe.so $(OUT)/tests/steps.so $(OUT)/tests/sim

test: deps-test
	@$(MAKE) --no-print-directory run-tests

test-long: deps-test
	@$(MAKE) --no-print-directory run-tests LONG=1

.PHONY: run-tests
run-tests:
	@for v in release asan tsan; do $(MAKE) --no-print-directory -s -j2 VARIANT=$$v test-bins || exit 1; done
	@$(MAKE) --no-print-directory -s client-bins
	@HILO_LONG=$(LONG) /usr/bin/python3 tests/run.py

# make sim SEEDS=n: so many stories of servers, clients, disks and a network, from FIRST on;
# make sim SEED=x: one of them, told line by line.
SEEDS ?= 1000
FIRST ?= 1
.PHONY: sim
sim: $(OUT)/tests/sim
	@$(OUT)/tests/sim $(if $(SEED),$(SEED),$(FIRST) $(SEEDS))

# Load, kills and a checker, for so long; part of make test for some seconds.
SOAK_SECONDS ?= 600
.PHONY: soak
soak: all $(OUT)/tests/driver
	@SOAK_SECONDS=$(SOAK_SECONDS) HILOD=$(OUT)/hilod /usr/bin/python3 tests/soak.py

# make mutants: each patch of tests/mutants breaks a guard, and the test it names has to notice;
# ONLY=name make mutants: those with that in their names.
.PHONY: mutants
mutants: deps-test
	@ONLY='$(ONLY)' /usr/bin/python3 tests/mutants.py

# Fuzz targets: over the kept corpus with every variant, and with libFuzzer for FUZZ_SECONDS
# each; what reaches new code is then kept.
FUZZ_SECONDS ?= 60
FUZZ_CC      ?= clang

$(OUT)/tests/fuzz-%: $(OBJ)/tests/fuzz/%.o $(OBJ)/tests/fuzz/replay.o $(SERVER_OBJ) $(COMMON_OBJ) \
                     $(CLIENT_COMMON_OBJ)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS)

build/fuzz/%: tests/fuzz/%.c $(SERVER_SRC) $(COMMON_SRC) $(CLIENT_COMMON) Makefile
	@mkdir -p build/fuzz/corpus/$*
	$(FUZZ_CC) -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=all -pthread $(PKG_CFLAGS) -Icommon -Iserver -Itests/fuzz -o $@ \
	    $< $(SERVER_SRC) $(COMMON_SRC) $(CLIENT_COMMON) $(PKG_LIBS)

deps-fuzz: deps-run
	$(call apt_install,clang libclang-rt-14-dev)

fuzz: deps-fuzz
	@$(MAKE) --no-print-directory run-fuzz

run-fuzz: $(FUZZERS:%=build/fuzz/%)
	@set -e; for f in $(FUZZERS); do \
	    build/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -max_len=20000 \
	        -print_final_stats=1 -artifact_prefix=build/fuzz/$$f- \
	        build/fuzz/corpus/$$f tests/fuzz/corpus/$$f; \
	    build/fuzz/$$f -set_cover_merge=1 tests/fuzz/corpus/$$f build/fuzz/corpus/$$f; \
	done

lint: layers
	clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h')
	cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --suppressions-list=tests/lint/cppcheck.txt \
	    --enable=warning,performance,portability -Icommon -Iserver common server
	cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --suppressions-list=tests/lint/cppcheck.txt \
	    --enable=warning,performance,portability -Icommon -Iclient client

layers: all
	sh tests/lint/layers.sh $(OBJ)

$(OUT)/manual: $(OBJ)/server/manual.o $(SERVER_OBJ) $(COMMON_OBJ)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PKG_LIBS)

# What is made from the table of options, and kept in the tree for those who read it there.
docs: all $(OUT)/manual
	$(OUT)/hilod --data /var/lib/hilo --unix /run/hilo/hilod.sock --auto-create no \
	    --print-config > configs/hilod.conf
	awk '/^\.\\" end options/ { skip = 0 } !skip { print } \
	    /^\.\\" begin options/ { skip = 1; while (("$(OUT)/manual" | getline line) > 0) print line }' \
	    server/hilod.8 > $(OUT)/hilod.8
	cp $(OUT)/hilod.8 server/hilod.8

$(OUT)/bench/load: bench/load.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP $(ALL_LDFLAGS) -o $@ $<

# With the shared library, as programs have it.
$(OUT)/bench/libempty.so: bench/empty.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -fPIC -shared -o $@ bench/empty.c

$(OUT)/bench/client: bench/client.c $(OUT)/bench/libempty.so $(OUT)/libhilo.so Makefile
	$(CC) $(ALL_CFLAGS) -Icommon -Iclient $(ALL_LDFLAGS) -o $@ bench/client.c -L$(OUT) -lhilo \
	    -L$(OUT)/bench -lempty -Wl,-rpath,$(abspath $(OUT)):$(abspath $(OUT)/bench)

$(OUT)/bench/bare: bench/bare.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ bench/bare.c $(LIB_LIBS)

bench bench-wire: all $(OUT)/bench/load $(OUT)/bench/bare
	@/usr/bin/python3 bench/wire.py

bench-client: all $(OUT)/bench/load $(OUT)/bench/client
	@/usr/bin/python3 bench/client.py

deps-compare: deps-run
	$(call apt_install,redis-server mariadb-server sysbench postgresql memcached etcd-server)

bench-compare: all $(OUT)/bench/load
	@/usr/bin/python3 bench/compare.py

bench-growth: all $(OUT)/bench/load
	@/usr/bin/python3 bench/growth.py

bench-latency: all $(OUT)/bench/load $(OUT)/tests/disk.so
	@/usr/bin/python3 bench/latency.py

# Instructions of the hot paths; part of make test, with the release build.
$(OUT)/bench/gate: bench/gate.c $(COMMON_OBJ) $(CLIENT_COMMON_OBJ) $(OBJ)/pic/client/hot.o \
                   $(OBJ)/pic/client/local.o Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Icommon -Iclient $(ALL_LDFLAGS) -o $@ $(filter-out Makefile,$^)

bench-gate: $(OUT)/bench/gate
	@/usr/bin/python3 bench/gate.py

# --- install ------------------------------------------------------------------------------

BIN = $(DESTDIR)$(PREFIX)
LIB = $(BIN)/lib
MAN = $(BIN)/share/man

# Without DESTDIR it is for this system, whose linker is told.
install: all
	install -D -m 755 $(OUT)/hilod $(BIN)/sbin/hilod
	install -D -m 755 $(OUT)/hilo $(BIN)/bin/hilo
	install -D -m 644 $(OUT)/libhilo.so $(LIB)/libhilo.so.$(LIB_VERSION)
	ln -sf libhilo.so.$(LIB_VERSION) $(LIB)/$(SONAME)
	ln -sf $(SONAME) $(LIB)/libhilo.so
	install -D -m 644 $(OUT)/libhilo.a $(LIB)/libhilo.a
	install -D -m 644 client/hilo.h $(BIN)/include/hilo.h
	install -D -m 644 client/hilo_inline.h $(BIN)/include/hilo_inline.h
	install -D -m 644 common/hilo_error.h $(BIN)/include/hilo_error.h
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(LIB_VERSION)|' client/hilo.pc.in > $(OUT)/hilo.pc
	install -D -m 644 $(OUT)/hilo.pc $(LIB)/pkgconfig/hilo.pc
	install -D -m 644 server/hilod.8 $(MAN)/man8/hilod.8
	install -D -m 644 client/hilo.1 $(MAN)/man1/hilo.1
	install -D -m 644 client/libhilo.3 $(MAN)/man3/libhilo.3
	install -D -m 644 client/hilo.bash $(BIN)/share/bash-completion/completions/hilo
	install -D -m 644 configs/hilod.conf $(BIN)/share/doc/hilo/hilod.conf
	install -D -m 644 configs/hilod.service $(BIN)/share/doc/hilo/hilod.service
	$(if $(DESTDIR),,ldconfig 2>/dev/null || true)

uninstall:
	rm -f $(BIN)/sbin/hilod $(BIN)/bin/hilo $(LIB)/libhilo.so* $(LIB)/libhilo.a \
	    $(BIN)/include/hilo.h $(BIN)/include/hilo_inline.h \
	    $(BIN)/include/hilo_error.h $(LIB)/pkgconfig/hilo.pc \
	    $(MAN)/man8/hilod.8 $(MAN)/man1/hilo.1 $(MAN)/man3/libhilo.3 \
	    $(BIN)/share/bash-completion/completions/hilo
	rm -rf $(BIN)/share/doc/hilo

clean:
	rm -rf build
