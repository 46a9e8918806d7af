/** The focus: where it goes when something opens, and that it comes back when it closes. */

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

let before: HTMLElement | null = null;

/** Move the focus to a control of the frame, and remember where it was. */
export function lendFocus(id: string): void {
  const target = document.getElementById(id);
  if (!target || target === document.activeElement) return;
  before = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  target.focus();
}

/** Put the focus back where it was before it was lent. */
export function returnFocus(): void {
  if (before?.isConnected && before !== document.body) before.focus();
  else if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  before = null;
}

interface Places<T extends HTMLElement> {
  readonly opener: RefObject<HTMLButtonElement | null>;
  readonly opened: RefObject<T | null>;
}

/** For what a button opens in its own place: the focus goes in, and back to the button when that is closed. */
export function useFocusInside<T extends HTMLElement>(isOpen: boolean): Places<T> {
  const opener = useRef<HTMLButtonElement>(null);
  const opened = useRef<T>(null);
  const was = useRef(isOpen);
  useEffect(() => {
    if (was.current === isOpen) return;
    was.current = isOpen;
    if (isOpen) opened.current?.querySelector<HTMLElement>("input, select, textarea, button")?.focus();
    else opener.current?.focus();
  }, [isOpen]);
  return { opener, opened };
}
