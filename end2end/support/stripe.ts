// A stand-in for Stripe's script, which no test can reach: the same calls, a frame of its own for the card, and a token from the
// sandbox provider. It knows just as much of the page as Stripe's does.

import type { BrowserContext, FrameLocator, Page, Route } from '@playwright/test'

import type { Sandbox } from './sandbox.ts'

const origin = 'https://js.stripe.com'
/** The script that the page has to load, and nothing else of that name. */
export const scriptAddress = `${origin}/dahlia/stripe.js`
const frameAddress = `${origin}/stand-in/card.html`

/** How the stand-in misbehaves. */
export interface Mischief {
  /** The script arrives when this is fulfilled. */
  until?: Promise<void>
  /** The frame never says that it is ready, but that it failed. */
  loadError?: boolean
  /** Making a payment method fails with this, as often as `times` says. */
  error?: { type: string; code?: string; times: number }
  /** Making a payment method never ends. */
  silent?: boolean
}

/** Answers for js.stripe.com in every page of the context; gives what was asked of it. */
export async function standIn(context: BrowserContext, sandbox: Sandbox, mischief: Mischief = {}): Promise<string[]> {
  const asked: string[] = []
  await context.route(`${origin}/**`, async (route: Route) => {
    const address = route.request().url()
    asked.push(address)
    if (address === scriptAddress) {
      await mischief.until
      const { loadError, error, silent } = mischief
      const body = script(sandbox.url, JSON.stringify({ loadError, error, silent }))
      await route.fulfill({ contentType: 'text/javascript', body }).catch(() => undefined)
    } else if (address === frameAddress) {
      await route.fulfill({ contentType: 'text/html', body: frame })
    } else {
      await route.abort()
    }
  })
  return asked
}

/** The fields in the frame. */
export function cardFrame(page: Page): FrameLocator {
  return page.frameLocator('.element iframe')
}

/** Fills in the form the way a person does: our fields, and those in the frame. */
export async function fillElement(page: Page, number: string, options: { cvc?: string } = {}): Promise<void> {
  await page.locator('[name=email]').fill('ana@example.org')
  await fillFrame(page, number, options)
  await page.locator('[name=name]').fill('Ana Example')
}

/** Fills in the fields in the frame. */
export async function fillFrame(page: Page, number: string, options: { cvc?: string } = {}): Promise<void> {
  const card = cardFrame(page)
  await card.getByLabel('Card number').fill(number)
  await card.getByLabel('Expiration date').fill('12 / 34')
  await card.getByLabel('Security code').fill(options.cvc ?? '123')
}

/** What the page told the script. */
export interface Told {
  key: string
  elements: { appearance: { theme: string; variables: Record<string, string> } } & Record<string, unknown>
  payment: Record<string, unknown>
  updates: { appearance: { theme: string } }[]
  mounted: number
}

/** Reads what the page told the script. */
export async function told(page: Page): Promise<Told> {
  return page.evaluate(() => (window as unknown as { standIn: Told }).standIn)
}

const script = (api: string, mischief: string): string => `
(() => {
  const api = ${JSON.stringify(api)}
  const mischief = ${mischief}
  const told = (window.standIn = { key: '', elements: null, payment: null, updates: [], mounted: 0 })
  window.Stripe = (key) => {
    told.key = key
    return {
      elements(options) {
        told.elements = options
        let frame
        const handlers = {}
        const emit = (name, event) => (handlers[name] || []).forEach((handler) => handler(event))
        const ask = (what) => new Promise((resolve) => {
          const answered = (event) => {
            if (event.source !== frame.contentWindow || event.data.answer !== what) return
            removeEventListener('message', answered)
            resolve(event.data)
          }
          addEventListener('message', answered)
          frame.contentWindow.postMessage({ ask: what }, '*')
        })
        return {
          ask,
          create(kind, payment) {
            told.payment = payment
            return {
              on(name, handler) { (handlers[name] = handlers[name] || []).push(handler); return this },
              focus() { frame.focus(); frame.contentWindow.postMessage({ ask: 'focus' }, '*') },
              mount(place) {
                told.mounted += 1
                frame = document.createElement('iframe')
                frame.src = ${JSON.stringify(frameAddress)}
                frame.title = 'Secure payment input frame'
                // Like Stripe's own: by script, which the page's policy of styles allows.
                frame.style.cssText = 'border:0;width:100%;height:208px;display:block'
                frame.addEventListener('load', () => {
                  frame.contentWindow.postMessage({ appearance: options.appearance }, '*')
                  if (mischief.loadError) emit('loaderror', { elementType: 'payment', error: { type: 'api_error' } })
                  else emit('ready', { elementType: 'payment' })
                })
                addEventListener('message', (event) => {
                  if (frame && event.source === frame.contentWindow && event.data.change) emit('change', event.data.change)
                })
                place.append(frame)
              },
            }
          },
          update(options) {
            told.updates.push(options)
            frame.contentWindow.postMessage({ appearance: options.appearance }, '*')
          },
          async submit() {
            const { code } = await ask('check')
            if (code) return { error: { type: 'validation_error', code, message: 'Text of the provider.' } }
            return { selectedPaymentMethod: 'card' }
          },
        }
      },
      async createPaymentMethod({ elements, params }) {
        if (mischief.silent) return new Promise(() => {})
        if (mischief.error && mischief.error.times-- > 0) {
          return { error: { type: mischief.error.type, code: mischief.error.code, message: 'Text of the provider.' } }
        }
        const { card } = await elements.ask('card')
        const form = new URLSearchParams({
          key: told.key,
          type: 'card',
          'card[number]': card.number,
          'card[exp_month]': card.month,
          'card[exp_year]': card.year,
          'card[cvc]': card.cvc,
          'billing_details[name]': params.billing_details.name,
          'billing_details[email]': params.billing_details.email,
        })
        const answer = await fetch(api + '/v1/payment_methods', { method: 'POST', body: form, credentials: 'omit' })
        const said = await answer.json()
        return said.error ? { error: said.error } : { paymentMethod: said }
      },
    }
  }
})()
`

const frame = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Card</title>
<style>
  * { box-sizing: border-box }
  body { margin: 0; font-family: var(--fontFamily, sans-serif); font-size: var(--fontSizeBase, 17px); color: var(--colorText) }
  form { display: grid; grid-template-columns: 1fr 1fr; gap: var(--gridRowSpacing, 24px) var(--gridColumnSpacing, 16px) }
  label { font-weight: 600 }
  label:first-child { grid-column: 1 / -1 }
  input { display: block; width: 100%; margin-top: 8px; padding: 14px 12px; font: inherit; font-weight: 400;
    color: var(--colorText); background: var(--colorBackground); border: 1px solid var(--border, #73828a);
    border-radius: var(--borderRadius, 6px) }
  input:focus { outline: 3px solid var(--colorPrimary); outline-offset: 0 }
</style>
<form>
  <label>Card number <input id="number" inputmode="numeric" autocomplete="cc-number"></label>
  <label>Expiration date <input id="expiry" inputmode="numeric" autocomplete="cc-exp"></label>
  <label>Security code <input id="code" inputmode="numeric" autocomplete="cc-csc"></label>
</form>
<script>
  const value = (id) => document.getElementById(id).value.replace(/[^0-9]/g, '')
  const check = () => {
    if (value('number').length < 13) return 'incomplete_number'
    if (value('expiry').length < 4) return 'incomplete_expiry'
    if (value('code').length < 3) return 'incomplete_cvc'
    return null
  }
  document.addEventListener('input', () => parent.postMessage({ change: { complete: check() === null } }, '*'))
  addEventListener('message', ({ data }) => {
    if (data.appearance) {
      for (const [name, text] of Object.entries(data.appearance.variables)) document.documentElement.style.setProperty('--' + name, text)
      const border = (data.appearance.rules?.['.Input']?.border ?? '').split(' ').at(-1)
      document.documentElement.style.setProperty('--border', border)
    }
    if (data.ask === 'focus') document.getElementById('number').focus()
    if (data.ask === 'check') parent.postMessage({ answer: 'check', code: check() }, '*')
    if (data.ask === 'card') {
      const card = { number: value('number'), month: value('expiry').slice(0, 2), year: value('expiry').slice(2), cvc: value('code') }
      parent.postMessage({ answer: 'card', card }, '*')
    }
  })
</script>
</html>
`
