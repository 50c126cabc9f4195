# hints.sh - before `make run` hands the terminal to hilod: what to try from another one.
if command -v redis-cli >/dev/null; then
    one='redis-cli -p 4456 INCR orders'
    many='redis-cli -p 4456 BLOCK orders 1000'
    info='redis-cli -p 4456 INFO hilo'
else
    one="printf 'INCR orders\\r\\nQUIT\\r\\n' | nc 127.0.0.1 4456"
    many="printf 'BLOCK orders 1000\\r\\nQUIT\\r\\n' | nc 127.0.0.1 4456"
    info="printf 'INFO hilo\\r\\nQUIT\\r\\n' | nc 127.0.0.1 4456"
fi
cat <<EOF
hilod serves the Redis protocol on 127.0.0.1:4456; its data is in ./hilo-data.
Try, in another terminal:

  $one
  $many
  $info
  build/hilo next orders -n 3
  build/hilo doctor

Ctrl-C stops it.
EOF
