// Watches and disturbs what the browser sends to the shop.

import type { BrowserContext, Page, Request, Route } from '@playwright/test'

import { at } from './moments.ts'

/** What the browser sends to pay. */
export interface PayBody {
  order: string
  intent: string
  replaces: string | null
  payment_method: string
  email: string
  amount: number
  currency: string
}

/** Address pattern of the server function that pays. */
export const payAddress = '**/rpc/pay'
/** Address pattern of the server function that asks for the outcome. */
export const outcomeAddress = '**/rpc/outcome'
/** The browser program. */
export const wasmAddress = '**/*.wasm'

/** The pay request's content. */
export function payBody(request: Request): PayBody {
  return (request.postDataJSON() as { pay: PayBody }).pay
}

/** Collects every attempt of the browser to pay, by script or by plain form. */
export function watchPayments(target: Page | BrowserContext): { intents: string[]; bodies: PayBody[] } {
  const seen = { intents: [] as string[], bodies: [] as PayBody[] }
  const watch = (request: Request): void => {
    if (request.method() !== 'POST') return
    const { pathname } = new URL(request.url())
    if (pathname === '/rpc/pay') {
      const body = payBody(request)
      seen.bodies.push(body)
      seen.intents.push(body.intent)
    } else if (/^\/checkout\/[^/]+\/pay$/.test(pathname)) {
      seen.intents.push(new URLSearchParams(request.postData() ?? '').get('intent') ?? '')
    }
  }
  // Both kinds have the same event; the overloads of the two types do not unite.
  ;(target as Page).on('request', watch)
  return seen
}

/** Lets the request reach the server and act there, then loses the answer. */
export async function loseAnswer(route: Route): Promise<void> {
  await route.fetch().catch(() => undefined)
  await route.abort('connectionreset')
}

/** Presses at one spot five times and Enter once, 10 ms apart: within 50 ms, faster than any person, never waiting for the page. */
export async function hammer(page: Page, x: number, y: number): Promise<void> {
  const session = await page.context().newCDPSession(page)
  const sent: Promise<unknown>[] = []
  const spot = { x, y, button: 'left', clickCount: 1 } as const
  const enter = { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13 }
  const begun = performance.now()
  for (let n = 0; n < 5; n += 1) {
    await at(10 * n, begun)
    sent.push(session.send('Input.dispatchMouseEvent', { type: 'mousePressed', ...spot }))
    sent.push(session.send('Input.dispatchMouseEvent', { type: 'mouseReleased', ...spot }))
  }
  await at(50, begun)
  sent.push(session.send('Input.dispatchKeyEvent', { type: 'keyDown', text: '\r', ...enter }))
  sent.push(session.send('Input.dispatchKeyEvent', { type: 'keyUp', ...enter }))
  // The page may leave under the later presses; that is part of the point.
  await Promise.allSettled(sent)
}
