// Without scripts, or with a browser program that never comes, the same page pays the same order by plain forms.

import { expectNoCharge, expectPaidOnce } from '../support/books.ts'
import {
  cards,
  expectState,
  fillCard,
  hydrated,
  intentOf,
  main,
  passBank,
  payButton,
  readOrder,
  tokenOf,
  versionFour,
} from '../support/checkout.ts'
import { gate } from '../support/moments.ts'
import { expect, test } from '../support/test.ts'
import { hammer, wasmAddress, watchPayments } from '../support/wire.ts'

test.describe('scripts off', () => {
  test.use({ javaScriptEnabled: false })

  test('from the shop to the receipt', async ({ page, sandbox, orders, shop, request }) => {
    await page.goto('/')
    await page.locator('form:has([name=sku][value=mug]) button').first().click()
    await expect(page).toHaveURL(/\/cart$/)
    await expect(main(page)).toContainText('Tidemark mug')
    await page.locator('form[action="/checkout"]').getByRole('button').click()
    await expect(page).toHaveURL(/\/checkout\/[^/]+$/)
    const order = await readOrder(request, shop.url, tokenOf(page.url()))
    orders.push(order)
    const intent = await intentOf(page)
    expect(intent).toMatch(versionFour)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(page).toHaveURL(/\/review\?/)
    await expectNoCharge(sandbox, order)
    await expect(main(page)).toContainText('4242')
    await expect(main(page)).toContainText(order.display)
    expect(await intentOf(page)).toBe(intent)
    await payButton(page).click()
    await expect(page).toHaveURL(order.outcomeUrl)
    const charge = await expectPaidOnce(page, sandbox, order)
    expect(charge.idempotency_key).toContain(intent)
    // Nothing secret in the address, and a reload asks again instead of posting again.
    expect(page.url()).not.toMatch(/4242|@|__err|error/)
    await page.reload()
    await expectPaidOnce(page, sandbox, order)
    await page.goto('/cart')
    await expect(main(page), 'what was paid has left the cart').not.toContainText('Tidemark mug')
  })

  // Errors in the address, lost values and a lost action are what plain forms of frameworks have given.
  test('p40: a fault in the card comes back with everything but number and code', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.goto(order.url)
    await fillCard(page, '4242 4242 4242 4241', { email: 'ana+shop@example.org' })
    await payButton(page).click()
    await expect(page).toHaveURL(new RegExp(`/checkout/${order.token}\\?session=`))
    await expectState(page, 'fields')
    await expect(page).toHaveTitle(/^Error: /)
    await expect(page.getByRole('heading', { name: 'There is a problem' })).toBeVisible()
    await expect(page.locator('[name=email]')).toHaveValue('ana+shop@example.org')
    await expect(page.locator('[name=name]')).toHaveValue('Ana Example')
    await expect(page.locator('[name=cardnumber]')).toHaveValue('')
    await expect(page.locator('[name=cvc]')).toHaveValue('')
    expect(page.url()).not.toMatch(/4242|__err|ana/)
    expect(await page.content()).not.toMatch(/4242[ ]?4242/)
    await expectNoCharge(sandbox, order)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
  })

  test('declined, then a good card', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.goto(order.url)
    const first = await intentOf(page)
    await fillCard(page, cards.declined)
    await payButton(page).click()
    await payButton(page).click()
    await expect(page).toHaveURL(order.outcomeUrl)
    await expectState(page, 'declined')
    await expect(main(page)).toContainText('Your bank said no to this payment')
    await expect(main(page)).toContainText('No money was taken')
    expect(await intentOf(page)).toBe(first)
    await expectNoCharge(sandbox, order)
    await page.getByRole('link', { name: /^Try/ }).click()
    const second = await intentOf(page)
    expect(second).toMatch(versionFour)
    expect(second, 'the failed key is retired').not.toBe(first)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await payButton(page).click()
    const charge = await expectPaidOnce(page, sandbox, order)
    expect(charge.idempotency_key).toContain(second)
  })

  test('a card that needs the bank', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.goto(order.url)
    await fillCard(page, cards.bankStep)
    await payButton(page).click()
    await payButton(page).click()
    await passBank(page, 'approve')
    await expectPaidOnce(page, sandbox, order)
  })

  test('b04: Back after paying finds the same payment, however far back and however often', async ({
    page,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder()
    await page.goto(order.url)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
    await page.goBack()
    await expectPaidOnce(page, sandbox, order)
    await page.goBack()
    await expectPaidOnce(page, sandbox, order)
  })

  // No guard exists here at all: each press posts the form.
  test('five clicks and Enter on a plain form pay once', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    const seen = watchPayments(page)
    await page.goto(order.url)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(page).toHaveURL(/\/review\?/)
    await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 700 })
    const box = await payButton(page).boundingBox()
    if (box === null) throw new Error('the Pay button is not on the page')
    await hammer(page, box.x + box.width / 2, box.y + box.height / 2)
    await expectPaidOnce(page, sandbox, order)
    expect(new Set(seen.intents).size).toBe(1)
    expect(await sandbox.confirmCalls(order)).toHaveLength(1)
  })

  // Browsers may fold presses in one instant into one request; these are apart, and each one goes out.
  test('three presses on a plain form, each of which posts, pay once', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    const seen = watchPayments(page)
    await page.goto(order.url)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(page).toHaveURL(/\/review\?/)
    await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 2500 })
    const box = await payButton(page).boundingBox()
    if (box === null) throw new Error('the Pay button is not on the page')
    for (let n = 0; n < 3; n += 1) {
      const posted = page.waitForRequest((request) => request.method() === 'POST')
      await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2)
      await posted
    }
    await expectPaidOnce(page, sandbox, order)
    expect(seen.intents, 'nothing held the presses back').toHaveLength(3)
    expect(new Set(seen.intents).size).toBe(1)
    expect(await sandbox.confirmCalls(order)).toHaveLength(1)
  })

  test('the plain form posted five times at once pays once and leads everybody to the outcome', async ({
    page,
    request,
    shop,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder()
    await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 700 })
    await page.goto(order.url)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(page).toHaveURL(/\/review\?/)
    const form: Record<string, string> = {}
    for (const name of ['intent', 'replaces', 'session', 'amount', 'currency']) {
      const field = page.locator(`form[action$="/pay"] [name=${name}]`)
      if ((await field.count()) > 0) form[name] = await field.inputValue()
    }
    const answers = await Promise.all(
      [1, 2, 3, 4, 5].map(() => request.post(`${shop.url}/checkout/${order.token}/pay`, { form, maxRedirects: 0 })),
    )
    for (const answer of answers) {
      expect(answer.status()).toBe(303)
      expect(answer.headers()['location']).toBe(`/orders/${order.token}`)
    }
    await page.goto(order.outcomeUrl)
    await expectPaidOnce(page, sandbox, order)
    expect(await sandbox.confirmCalls(order)).toHaveLength(1)
  })

  test('while the outcome is unknown the page offers no Pay and finds the truth by itself', async ({
    page,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder()
    await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_drop' })
    await sandbox.silent()
    await page.goto(order.url)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await payButton(page).click()
    await expectState(page, 'unknown')
    await expect(payButton(page)).toHaveCount(0)
    await sandbox.clearFaults()
    const again = page.getByRole('link', { name: 'Check again' }).or(page.getByRole('button', { name: 'Check again' }))
    await expect
      .poll(async () => {
        if (await again.first().isVisible()) await again.first().click()
        return main(page).getAttribute('data-state')
      })
      .toBe('paid')
    await expectPaidOnce(page, sandbox, order)
  })
})

test.describe('the browser program is blocked', () => {
  test.use({ breaksScripts: true })

  test('a press pays by the plain form, once', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    const seen = watchPayments(page)
    await page.route(wasmAddress, (route) => route.abort())
    await page.goto(order.url)
    const intent = await intentOf(page)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(page).toHaveURL(/\/review\?/, { timeout: 20_000 })
    expect(await intentOf(page)).toBe(intent)
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
    expect(new Set(seen.intents)).toEqual(new Set([intent]))
  })

  test('five clicks and Enter on the review page pay once', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.route('**/*.{wasm,js}', (route) => route.abort())
    await page.goto(order.url)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(page).toHaveURL(/\/review\?/, { timeout: 20_000 })
    await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 700 })
    const box = await payButton(page).boundingBox()
    if (box === null) throw new Error('the Pay button is not on the page')
    await hammer(page, box.x + box.width / 2, box.y + box.height / 2)
    await expectPaidOnce(page, sandbox, order)
  })

  test('the browser program is broken: the plain form still pays, once', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.route(wasmAddress, (route) =>
      route.fulfill({ status: 200, contentType: 'application/wasm', body: 'not a program' }),
    )
    await page.goto(order.url)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(page).toHaveURL(/\/review\?/, { timeout: 20_000 })
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
  })
})

test.describe('the browser program comes late', () => {
  // A click before the program is there must neither be lost nor pay a second time once it is.
  test('p39: a press before the program is there pays once, with the UUID the page had', async ({
    page,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder()
    const seen = watchPayments(page)
    const late = gate()
    await page.route(wasmAddress, async (route) => {
      await late.passed
      await route.continue()
    })
    await page.goto(order.url, { waitUntil: 'domcontentloaded' })
    const intent = await intentOf(page)
    expect(intent).toMatch(versionFour)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(payButton(page)).toHaveText(`Paying ${order.display}…`)
    late.open()
    await expectPaidOnce(page, sandbox, order)
    expect(new Set(seen.intents)).toEqual(new Set([intent]))
  })

  test('p39: a press before and presses after the program arrives pay once', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1000 })
    const seen = watchPayments(page)
    const late = gate()
    await page.route(wasmAddress, async (route) => {
      await late.passed
      await route.continue()
    })
    await page.goto(order.url, { waitUntil: 'domcontentloaded' })
    await fillCard(page, cards.good)
    const box = await payButton(page).boundingBox()
    if (box === null) throw new Error('the Pay button is not on the page')
    await hammer(page, box.x + box.width / 2, box.y + box.height / 2)
    late.open()
    await hammer(page, box.x + box.width / 2, box.y + box.height / 2)
    await expectPaidOnce(page, sandbox, order)
    expect(new Set(seen.intents).size).toBe(1)
  })

  test('p39: the program never comes: after eight seconds the plain form goes, and pays once', async ({
    page,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder()
    const seen = watchPayments(page)
    await page.clock.install()
    // Held for ever: the request neither ends nor fails.
    await page.route(wasmAddress, () => new Promise(() => undefined))
    const asked = page.waitForRequest(wasmAddress)
    await page.goto(order.url, { waitUntil: 'domcontentloaded' })
    await page.clock.runFor(100)
    await asked
    const intent = await intentOf(page)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expect(payButton(page)).toHaveText(`Paying ${order.display}…`)
    await page.clock.runFor(8_000)
    await expect(page).toHaveURL(/\/review\?/)
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
    expect(new Set(seen.intents)).toEqual(new Set([intent]))
  })

  // What is typed before the program takes over must be what is sent.
  test('b39, b139: what was typed before the program arrived stays and is sent', async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    const seen = watchPayments(page)
    const late = gate()
    await page.route(wasmAddress, async (route) => {
      await late.passed
      await route.continue()
    })
    await page.goto(order.url, { waitUntil: 'domcontentloaded' })
    await fillCard(page, cards.good, { email: 'early+bird@example.org' })
    late.open()
    await hydrated(page)
    await expect(page.locator('[name=email]')).toHaveValue('early+bird@example.org')
    await expect(page.locator('[name=name]')).toHaveValue('Ana Example')
    await expect(page.locator('[name=cardnumber]')).toHaveValue(/4242/)
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
    expect(seen.bodies.map(({ email }) => email)).toEqual(['early+bird@example.org'])
  })
})
