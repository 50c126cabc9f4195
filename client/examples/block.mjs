// block.mjs PORT NAME COUNT - prints COUNT ids, taken from hilod in blocks, with node-redis.
//
// Ids are BigInt: a Number would round them from 2^53 on. Callers that come while a block is
// being fetched wait for the same one.
import { createClient } from "redis";

class Ids {
  constructor(client, name, size = 1000) {
    Object.assign(this, { client, name, size, id: 1n, last: 0n, step: 1n });
  }
  async fetch() {
    const block = await this.client.sendCommand(["BLOCK", this.name, String(this.size)]);
    [this.id, this.last, this.step] = block.map(BigInt);
    this.fetching = null;
  }
  async next() {
    while (this.id > this.last) await (this.fetching ??= this.fetch());
    const id = this.id;
    this.id += this.step;
    return id;
  }
}

const [port, name, count] = process.argv.slice(2);
const client = createClient({ socket: { host: "127.0.0.1", port: Number(port) } });
await client.connect();
const ids = new Ids(client, name);
for (const id of await Promise.all(Array.from({ length: Number(count) }, () => ids.next())))
  console.log(String(id));
client.destroy();
