// What one impatient customer does, and what goes wrong meanwhile: all of it follows from the seed.

import { cards } from './checkout.ts'
import { presses, type Press } from './early_press.ts'
import type { Fault, Match } from './sandbox.ts'
import { Seeded } from './seeded.ts'

/** What the customer's browser can do. */
export type Browsing = 'everything' | 'program late' | 'program blocked' | 'storage blocked' | 'scripts off'

export type Step = { afterMs: number } & (
  | { do: 'press'; how: Press; apartMs: number }
  | { do: 'reload' | 'back' | 'forward' | 'open checkout' | 'open outcome' | 'new tab' | 'other tab' | 'close tab' | 'restart' }
  /** The network is gone for a while. */
  | { do: 'offline'; forMs: number }
  /** The next payment or question is lost on its way, or its answer. */
  | { do: 'lose'; what: 'pay' | 'outcome'; part: 'request' | 'answer' }
)

export interface SessionFault {
  path: Match['path']
  fault: Fault
  next: number
}

export interface SessionPlan {
  seed: number
  browsing: Browsing
  /** The first card, and the one after a decline. */
  cards: [string, string]
  atTheBank: 'approve' | 'refuse'
  faults: SessionFault[]
  steps: Step[]
}

export function sessionPlan(seed: number): SessionPlan {
  const chance = new Seeded(seed)
  const card = (): string =>
    chance.weighted([
      [14, cards.good],
      [2, cards.declined],
      [1, cards.noFunds],
      [3, cards.bankStep],
    ])
  const browsing = chance.weighted<Browsing>([
    [10, 'everything'],
    [2, 'program late'],
    [2, 'program blocked'],
    [2, 'storage blocked'],
    [3, 'scripts off'],
  ])
  const steps = [press(chance)]
  // By plain forms, paying takes a second press.
  if (browsing === 'scripts off' || browsing === 'program blocked') steps.push(press(chance))
  for (let n = chance.between(2, 7); n > 0; n -= 1) steps.push(step(chance))
  return {
    seed,
    browsing,
    cards: [card(), card()],
    atTheBank: chance.chance(0.7) ? 'approve' : 'refuse',
    faults: Array.from({ length: chance.weighted([[3, 0], [5, 1], [2, 2], [1, 3]]) }, () => fault(chance)),
    steps,
  }
}

/** Mostly at once, sometimes after the bank has had its time. */
function pause(chance: Seeded): number {
  return chance.weighted([[3, 0], [3, 30], [3, 150], [2, 500], [1, 1500]]) + chance.between(0, 60)
}

function press(chance: Seeded): Step {
  return { do: 'press', how: chance.one(presses), apartMs: chance.between(10, 150), afterMs: pause(chance) }
}

function step(chance: Seeded): Step {
  const afterMs = pause(chance)
  return chance.weighted<() => Step>([
    [6, () => press(chance)],
    [3, () => ({ do: 'reload', afterMs })],
    [2, () => ({ do: 'back', afterMs })],
    [1, () => ({ do: 'forward', afterMs })],
    [2, () => ({ do: 'open checkout', afterMs })],
    [1, () => ({ do: 'open outcome', afterMs })],
    [2, () => ({ do: 'new tab', afterMs })],
    [1, () => ({ do: 'other tab', afterMs })],
    [1, () => ({ do: 'close tab', afterMs })],
    [2, () => ({ do: 'restart', afterMs })],
    [2, () => ({ do: 'offline', forMs: chance.between(50, 1500), afterMs })],
    [
      3,
      () => ({
        do: 'lose',
        what: chance.one(['pay', 'pay', 'outcome'] as const),
        part: chance.one(['request', 'answer'] as const),
        afterMs,
      }),
    ],
  ])()
}

function fault(chance: Seeded): SessionFault {
  const ms = chance.between(50, 2_000)
  const next = chance.between(1, 2)
  return chance.weighted<SessionFault>([
    [3, { path: 'confirm', fault: { kind: 'delay_before', ms }, next }],
    [3, { path: 'confirm', fault: { kind: 'delay_after', ms }, next }],
    // Longer than the shop waits for its provider.
    [1, { path: 'confirm', fault: { kind: 'delay_after', ms: ms + 3_000 }, next }],
    [4, { path: 'confirm', fault: { kind: 'charge_then_drop' }, next: 1 }],
    [2, { path: 'confirm', fault: { kind: 'charge_then_500' }, next: 1 }],
    [2, { path: 'confirm', fault: { kind: 'error_500' }, next }],
    [1, { path: 'confirm', fault: { kind: 'error_500', remember: true }, next: 1 }],
    [2, { path: 'confirm', fault: { kind: 'drop_before' }, next }],
    [2, { path: 'confirm', fault: { kind: 'decline', code: chance.one(['do_not_honor', 'insufficient_funds']) }, next: 1 }],
    [2, { path: 'confirm', fault: { kind: 'status', status: 429, retry_after: 1 }, next }],
    [1, { path: 'confirm', fault: { kind: 'conflict_409' }, next }],
    [2, { path: 'retrieve', fault: { kind: 'error_500' }, next: next + 1 }],
    [1, { path: 'retrieve', fault: { kind: 'delay_after', ms }, next }],
  ])
}
