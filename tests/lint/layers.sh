# layers.sh OBJDIR - checks the layers of ARCHITECTURE.md on headers and symbols.
#
# common is pure: its objects may use only the functions listed here (memory and string
# primitives that neither allocate nor touch the world) and have no variables. Foreign
# libraries and clocks each have one file. Prints what is wrong; exits 1 if anything is.
obj=$1
bad=0

complain() {
    echo "layers: $1" >&2
    bad=1
}

# Pure objects: built for hilod, and again, position-independent, for the library.
pure_objects=$(ls "$obj"/common/*.o "$obj"/pic/common/*.o)
pure='memcpy|memmove|memset|memcmp|memchr|strlen|strcmp|__memcpy_chk|__memmove_chk|__memset_chk'
compiler='__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__asan_.*|__ubsan_.*|__tsan_.*'
own=$(nm --defined-only $pure_objects | awk 'NF == 3 { print $3 }' | sort -u)

for o in $pure_objects; do
    for symbol in $(nm --undefined-only "$o" | awk '{ print $2 }'); do
        echo "$symbol" | grep -qE "^($pure|$compiler)$" && continue
        echo "$own" | grep -qx "$symbol" && continue
        complain "$o uses $symbol, which is not pure"
    done
    for symbol in $(nm --defined-only "$o" | awk '$2 ~ /^[BbDdCGgSs]$/ { print $3 }'); do
        complain "$o has a variable, $symbol"
    done
done

# only_in PATTERN FILE WHAT: includes that match stand in one file.
only_in() {
    for f in $(grep -lE "$1" common/*.[ch] server/*.[ch] client/*.[ch] 2>/dev/null); do
        [ "$f" = "$2" ] || complain "$f includes $3; only $2 may"
    done
}
only_in '^ *# *include *<sqlite3\.h>' server/store_sqlite.c '<sqlite3.h>'
only_in '^ *# *include *<confuse\.h>' server/options_file.c '<confuse.h>'
only_in '^ *# *include *<hiredis/' server/store_redis.c '<hiredis/...>'
only_in '^ *# *include *<curl/' server/store_etcd.c '<curl/...>'

# clock, and pause of hilo top, a program that waits for a person.
for o in "$obj"/server/*.o "$obj"/pic/client/*.o; do
    case "$(basename "$o")" in clock.o | cli_look.o) continue ;; esac
    for symbol in $(nm --undefined-only "$o" | awk '{ print $2 }' |
                    grep -E '^(clock_gettime|gettimeofday|time|clock|ftime|nanosleep|usleep|sleep)$'); do
        complain "$o uses $symbol; clocks are read in clock.c"
    done
done

# Each side includes common and itself, nothing else of ours.
for f in common/*.[ch] server/*.[ch] client/*.[ch]; do
    [ -e "$f" ] || continue
    dir=${f%%/*}
    for name in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$f"); do
        [ -e "$dir/$name" ] || [ -e "common/$name" ] || complain "$f includes $name"
    done
done

# No mutable variables in the server but the log's own: what is shared is in struct server.
for o in "$obj"/server/*.o; do
    for symbol in $(nm --defined-only "$o" | awk '$2 ~ /^[BbDdCGgSs]$/ { print $3 }'); do
        case "$(basename "$o")/$symbol" in
        log.o/threshold | log.o/json | log.o/dropped) ;;
        # Tables of pointers are constant, but live where the loader can relocate them.
        *) readelf -sW "$o" | grep -w "$symbol" | grep -q OBJECT &&
               ! nm -f sysv "$o" | grep -w "$symbol" | grep -q '\.data\.rel\.ro' &&
               complain "$o has a variable, $symbol" ;;
        esac
    done
done
# The library's variables are those that the process needs one of.
for o in "$obj"/pic/client/*.o; do
    case "$(basename "$o")" in cli_*.o) continue ;; esac
    for symbol in $(nm --defined-only "$o" | awk '$2 ~ /^[BbDdCGgSs]$/ { print $3 }'); do
        case "$(basename "$o")/$symbol" in
        hot.o/serials | local.o/used | local.o/once | local.o/key | local.o/have_key) ;;
        local.o/hilo_rows_ | local.o/nobody) ;; # each thread has its own; never written
        *) nm -f sysv "$o" | grep -w "$symbol" | grep -q '\.data\.rel\.ro' ||
               complain "$o has a variable, $symbol" ;;
        esac
    done
done
exit $bad
