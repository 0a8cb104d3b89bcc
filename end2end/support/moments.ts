// Moments as inputs. A test may say *when* a person does something; it never waits this way for the product.

import { setTimeout as sleep } from 'node:timers/promises'

/** Carries on `ms` after `since`, e.g. "the person closes the browser 50 ms after the click". */
export async function at(ms: number, since: number): Promise<void> {
  const rest = since + ms - performance.now()
  if (rest > 0) await sleep(rest)
}

/** A promise and the hand that fulfils it, to hold something up until the test says so. */
export function gate(): { open: () => void; passed: Promise<void> } {
  let open = (): void => undefined
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, passed }
}
