/** The few things that every view does with the document. */

/** The element with this id, which the page has. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element #${id}`);
  return found as T;
}

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = "",
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** Touch the document only where the text differs: most updates change little. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** A function that asks for `draw` at the next frame; asking often draws once. */
export function onNextFrame(draw: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/** The value of a colour in the style sheet. */
export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** What the browser remembers for this page; one that keeps nothing is no error. */
export const memory = {
  get(name: string): string | null {
    try {
      return localStorage.getItem(`artery.${name}`);
    } catch {
      return null;
    }
  },
  set(name: string, value: string | null): void {
    try {
      if (value === null) localStorage.removeItem(`artery.${name}`);
      else localStorage.setItem(`artery.${name}`, value);
    } catch {
      // Nothing to do: the choice holds until the page is closed.
    }
  },
};
