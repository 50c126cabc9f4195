# block.sh PORT NAME COUNT - prints COUNT ids, taken from hilod in blocks of 10.
#
# The block lives in shell variables: an id is arithmetic, a round trip comes with every
# tenth. When this script ends, what is left of its block is a gap.
port=$1 name=$2 count=$3
id=1 last=0 step=1

fetch() {
    set -- $(redis-cli -p "$port" BLOCK "$name" 10)
    case $1 in
    *[!0-9]* | '') echo "block.sh: hilod said: $*" >&2; exit 1 ;;
    esac
    id=$1 last=$2 step=$3
}

while [ "$count" -gt 0 ]; do
    [ "$id" -le "$last" ] || fetch
    echo "$id"
    id=$((id + step)) count=$((count - 1))
done
