"""take.py - python3-redis with its default settings; see clients_test.py."""

import sys

import redis

r = redis.Redis("127.0.0.1", int(sys.argv[1]))
for _ in range(500):
    print("id", r.incr("orders"))
pipe = r.pipeline(transaction=False)
for _ in range(500):
    pipe.execute_command("NEXT", "orders")
for i in pipe.execute():
    print("id", i.decode())
for i in r.execute_command("NEXT", "big", 1000):
    print("big", i.decode())
print("restart", flush=True)
sys.stdin.readline()
try:
    print("id", r.incr("orders"))
except redis.ConnectionError:  # it notices once, and connects again at the next command
    print("id", r.incr("orders"))
