/** Artery's page. */

import "./style/base.css";
import "./style/layout.css";
import "./style/panels.css";
import "./style/book.css";
import "./style/door.css";
import "./style/narrow.css";
import { Screen } from "./app/screen";
import { enter } from "./app/session";
import { expose } from "./app/window";
import { ArteryHttp } from "./client";

const http = new ArteryHttp();
const screen = new Screen(http, await enter(http));
expose(screen);
screen.start();
