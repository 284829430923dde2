// A gateway as one writes it with Fastify and its WebSocket plug-in: each event is sent to each socket, one message a
// call. `burst N` on its input publishes the event of the first argument N times.
import { createInterface } from "node:readline";
import websocket from "@fastify/websocket";
import Fastify from "fastify";

const event = Buffer.from(process.argv[2]);
const sockets = new Set();
const app = Fastify();
await app.register(websocket);
app.get("/v1/stream", { websocket: true }, (socket) => {
  socket.on("message", () => {
    sockets.add(socket);
    socket.send('{"type":"subscribed"}');
  });
  socket.on("close", () => sockets.delete(socket));
});

let waiting = 0;
let publishing = false;
function publish() {
  for (const socket of sockets) socket.send(event, { binary: false });
  waiting -= 1;
  publishing = waiting > 0;
  if (publishing) setImmediate(publish);
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    waiting += Number(line.split(" ")[1]);
    if (!publishing) {
      publishing = true;
      setImmediate(publish);
    }
  })
  .on("close", () => process.exit(0));

await app.listen({ host: "127.0.0.1", port: 0 });
console.log(`ready ${app.server.address().port}`);
