// ioredis.mjs PORT MODULE - ioredis with its default settings; see clients_test.py.
import { createInterface } from "node:readline/promises";

const { Redis } = await import(process.argv[3]);
const redis = new Redis(Number(process.argv[2]), "127.0.0.1");
redis.on("error", () => {}); // while the server is away
for (let i = 0; i < 500; i++) console.log("id", await redis.incr("orders"));
const pipe = redis.pipeline();
for (let i = 0; i < 500; i++) pipe.call("NEXT", "orders");
for (const [err, id] of await pipe.exec()) console.log("id", err ?? id);
for (const id of await redis.call("NEXT", "big", 1000)) console.log("big", id);
console.log("restart");
await createInterface(process.stdin).question("");
console.log("id", await redis.incr("orders"));
redis.disconnect();
process.exit(0);
