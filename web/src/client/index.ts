/** A small typed client of Artery for browsers: `ArteryClient` for what is live, `ArteryHttp` for what is asked. */

export * from "./events";
export * from "./frames";
export * from "./http";
export * from "./places";
export * from "./retry";
export * from "./stream";
