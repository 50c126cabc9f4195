"""block.py PORT NAME COUNT - prints COUNT ids, taken from hilod in blocks.

An id costs nanoseconds as long as the block lasts. The lock makes it safe for threads; a forked
child has to make an instance of its own.
"""

import sys
import threading

import redis


class Ids:
    def __init__(self, client, name, size=1000):
        self.client, self.name, self.size = client, name, size
        self.lock = threading.Lock()
        self.block = iter(())

    def next(self):
        with self.lock:
            an_id = next(self.block, None)
            if an_id is None:
                first, last, step = map(
                    int, self.client.execute_command("BLOCK", self.name, self.size))
                self.block = iter(range(first, last + 1, step))
                an_id = next(self.block)
            return an_id


port, name, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
ids = Ids(redis.Redis("127.0.0.1", port), name)
for _ in range(count):
    print(ids.next())
