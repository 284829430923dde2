/** Gaps of many series and markets, told once. */

import type { GapFrame } from "../client";

export interface Gap {
  readonly reason: string;
  readonly fromMs: number;
  readonly toMs: number;
}

const NEAR_MS = 2_000;

/** The list with this gap in it: one that touches a known gap of the same reason widens it. */
export function noted(gaps: readonly Gap[], frame: GapFrame, most: number): Gap[] {
  const near = gaps.find((gap) => gap.reason === frame.reason && touches(gap, frame));
  const merged: Gap = {
    reason: frame.reason,
    fromMs: near ? Math.min(near.fromMs, frame.fromMs) : frame.fromMs,
    toMs: near ? Math.max(near.toMs, frame.toMs) : frame.toMs,
  };
  return [...gaps.filter((gap) => gap !== near), merged].slice(-most);
}

function touches(gap: Gap, frame: GapFrame): boolean {
  return gap.fromMs <= frame.toMs + NEAR_MS && frame.fromMs <= gap.toMs + NEAR_MS;
}
