// Presses Pay while the page is still loading. The card is filled in as soon as its fields are there, as a browser's own memory for
// cards does; the press is a real one, of mouse or keyboard; and the page tells which moment of its loading the press met.

import type { CDPSession, Page } from '@playwright/test'

import { cards } from './checkout.ts'
import { at } from './moments.ts'

/** The moments of a load that a press can meet, in this order. */
export const phases = [
  /** The page's own text has not come to its end. */
  'page arriving',
  /** The page stands; the program is on its way. */
  'program arriving',
  /** The program is there, but the form is not yet its own. */
  'coming to life',
  /** The browser program has the form. */
  'alive',
] as const

export type Phase = (typeof phases)[number]

export const presses = ['click', 'double click', 'Enter'] as const

export type Press = (typeof presses)[number]

/** What a page tells of its loads. */
export interface Loads {
  /** Kept when the form of the next load stands there, filled in. */
  nextStands: () => Promise<void>
  /** The phases that presses met, since the last `nextStands`. A press that the browser did not deliver is not among them. */
  met: Phase[]
}

/** Watches the loads of checkout pages. To be called before the first. */
export async function watchLoads(page: Page): Promise<Loads> {
  const met: Phase[] = []
  let keep = (): void => undefined
  await page.exposeBinding('payonceStands', () => keep())
  await page.exposeBinding('payonceMet', (_, phase: Phase) => met.push(phase))
  await page.addInitScript(fillAndTell, {
    email: 'ana@example.org',
    cardnumber: cards.good,
    exp: '12 / 34',
    cvc: '123',
    name: 'Ana Example',
  })
  const nextStands = (): Promise<void> => {
    met.length = 0
    return new Promise((resolve) => {
      keep = resolve
    })
  }
  return { nextStands, met }
}

/** Runs in the page, before anything of its own. */
function fillAndTell(values: Record<string, string>): void {
  if (!/^\/checkout\/[^/]+$/.test(location.pathname)) return
  const tells = window as unknown as { payonceStands: () => void; payonceMet: (phase: Phase) => void }
  const find = (): HTMLFormElement | null => document.querySelector('#pay-form')
  const fill = new MutationObserver(() => {
    const form = find()
    for (const [name, value] of Object.entries(values)) {
      const field = form?.querySelector<HTMLInputElement>(`[name=${name}]`)
      if (field?.value === '') field.value = value
    }
    if (form?.querySelector('.pay-button') == null) return
    fill.disconnect()
    tells.payonceStands()
  })
  fill.observe(document, { childList: true, subtree: true })
  const phase = (): Phase => {
    if (find()?.dataset['hydrated'] !== undefined) return 'alive'
    if (document.readyState === 'loading') return 'page arriving'
    const files = performance.getEntriesByType('resource') as PerformanceResourceTiming[]
    const there = files.some(({ name, responseEnd }) => name.endsWith('.wasm') && responseEnd > 0)
    return there ? 'coming to life' : 'program arriving'
  }
  // Every field is filled in, so that each press that reaches the page submits; before the page's own handlers hear of it.
  window.addEventListener('submit', () => tells.payonceMet(phase()), true)
}

export interface Spot {
  x: number
  y: number
}

/** Gets ready to press: finds the button, or puts the focus into the last field. */
export async function aim(page: Page, how: Press): Promise<Spot> {
  return page.evaluate((how) => {
    const button = document.querySelector<HTMLButtonElement>('.pay-button')
    button?.scrollIntoView({ block: 'nearest' })
    // The page that asks once more has no field.
    if (how === 'Enter') (document.querySelector<HTMLInputElement>('#pay-form [name=name]') ?? button)?.focus()
    const box = button?.getBoundingClientRect() ?? new DOMRect()
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 }
  }, how)
}

/** Presses, by the same events as from a mouse or a keyboard. The page may leave under it. */
export async function press(session: CDPSession, how: Press, spot: Spot, apartMs: number): Promise<void> {
  const sent: Promise<unknown>[] = []
  const begun = performance.now()
  if (how === 'Enter') {
    const enter = { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13 }
    sent.push(session.send('Input.dispatchKeyEvent', { type: 'keyDown', text: '\r', ...enter }))
    sent.push(session.send('Input.dispatchKeyEvent', { type: 'keyUp', ...enter }))
  } else {
    for (const clickCount of how === 'click' ? [1] : [1, 2]) {
      await at((clickCount - 1) * apartMs, begun)
      for (const type of ['mousePressed', 'mouseReleased'] as const) {
        sent.push(session.send('Input.dispatchMouseEvent', { type, button: 'left', clickCount, ...spot }))
      }
    }
  }
  await Promise.allSettled(sent)
}
