// redis.mjs PORT MODULE RESP - node-redis; RESP is 2, 3, or "default"; see clients_test.py.
import { createInterface } from "node:readline/promises";

const { createClient } = await import(process.argv[3]);
const options = { socket: { host: "127.0.0.1", port: Number(process.argv[2]) } };
if (process.argv[4] !== "default") options.RESP = Number(process.argv[4]);
const redis = createClient(options);
redis.on("error", () => {}); // while the server is away
await redis.connect();
for (let i = 0; i < 500; i++) console.log("id", await redis.incr("orders"));
const ids = await Promise.all(
  Array.from({ length: 500 }, () => redis.sendCommand(["NEXT", "orders"])));
for (const id of ids) console.log("id", id);
for (const id of await redis.sendCommand(["NEXT", "big", "1000"])) console.log("big", id);
console.log("restart");
await createInterface(process.stdin).question("");
console.log("id", await redis.incr("orders"));
process.exit(0);
