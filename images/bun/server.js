// Serves /www over HTTP/3 on UDP 443, until SIGTERM.
import { existsSync } from "node:fs";
import { normalize } from "node:path";

const ROOT = "/www";
const settings = {};
for (const word of process.argv.slice(2)) {
  const [name, value] = word.split("=");
  if (name !== "--idle-timeout" || !/^\d+$/.test(value)) {
    console.error(`no option of this server, or no whole number of seconds: ${word}`);
    process.exit(1);
  }
  settings.idleTimeout = Number(value);
}

const server = Bun.serve({
  // Where the kernel has no IPv6, its socket cannot be made.
  hostname: existsSync("/proc/net/if_inet6") ? "::" : "0.0.0.0",
  port: 443,
  http1: false,
  http3: true,
  tls: { cert: Bun.file("/certs/cert.pem"), key: Bun.file("/certs/priv.key") },
  ...settings,
  async fetch(request) {
    const path = normalize(ROOT + decodeURIComponent(new URL(request.url).pathname));
    const file = Bun.file(path);
    if (!path.startsWith(`${ROOT}/`) || !(await file.exists())) {
      return new Response("no such file\n", { status: 404 });
    }
    return new Response(file);
  },
});
console.log(`Bun ${Bun.version} serves ${ROOT} on ${server.hostname}, port ${server.port}`);

process.on("SIGTERM", async () => {
  await server.stop(true);
  process.exit(0);
});
