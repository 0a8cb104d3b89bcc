// The whole checkout page, cold, is light: what travels is what counts.

import { hydrated } from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'

/** Everything a browser without any cache fetches for the checkout page, in bytes on the wire. */
const budgetBytes = 140_000

test('the checkout page weighs at most 140 kB, everything together', async ({ page, newOrder }, testInfo) => {
  const order = await newOrder()
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  await session.send('Network.setCacheDisabled', { cacheDisabled: true })
  const files = new Map<string, { address: string; kind: string; coding: string; bytes: number }>()
  session.on('Network.responseReceived', ({ requestId, response, type }) => {
    const { pathname } = new URL(response.url)
    const address = pathname.replace(order.token, '…')
    files.set(requestId, { address, kind: type, coding: response.headers['content-encoding'] ?? '–', bytes: 0 })
  })
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    const file = files.get(requestId)
    if (file !== undefined) file.bytes = encodedDataLength
  })
  await page.goto(order.url, { waitUntil: 'networkidle' })
  await hydrated(page)
  const rows = [...files.values()].sort((a, b) => b.bytes - a.bytes)
  const total = rows.reduce((sum, { bytes }) => sum + bytes, 0)
  const table = [...rows, { address: 'together', kind: '', coding: '', bytes: total }]
    .map(({ bytes, kind, coding, address }) => `${String(bytes).padStart(8)}  ${kind.padEnd(10)} ${coding.padEnd(6)} ${address}`)
    .join('\n')
  testInfo.annotations.push({ type: 'weight', description: `${total} bytes` })
  console.log(`bytes on the wire, checkout page, cold:\n${table}`)
  expect(rows.some(({ address, bytes }) => address.endsWith('.wasm') && bytes > 0), 'the browser program was counted').toBe(true)
  expect(total).toBeLessThanOrEqual(budgetBytes)
})
