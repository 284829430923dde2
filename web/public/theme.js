// Before the first paint, so that the page does not flash in the wrong theme.
let theme = null;
try {
  theme = localStorage.getItem("artery.theme");
} catch {
  // A browser that keeps nothing follows the system.
}
if (theme !== "light" && theme !== "dark") {
  theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
document.documentElement.dataset.theme = theme;
