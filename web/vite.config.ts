import { defineConfig, type ProxyOptions } from "vite";

/** Where `npm run dev` finds a running Artery; its Origin and Host checks want their own address. */
const gateway = "http://127.0.0.1:8080";

const proxy: ProxyOptions = {
  target: gateway,
  changeOrigin: true,
  ws: true,
  rewriteWsOrigin: true,
  headers: { origin: gateway },
};

export default defineConfig({
  build: {
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0, // a strict Content-Security-Policy allows no data: addresses
    chunkSizeWarningLimit: 300,
  },
  server: { host: "127.0.0.1", proxy: { "/v1": proxy, "/readyz": proxy } },
});
