// A decline is definite: nothing was taken, the page says why as far as people may know, and another card pays at once.

import { expectNoCharge, expectPaidOnce } from '../support/books.ts'
import { cards, expectState, fillCard, hydrated, intentOf, main, payButton, versionFour } from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'
import { watchPayments } from '../support/wire.ts'

const again = /^(Pay|Try again|Try another)/

// A fault in the form or a decline once used up the key, so that the corrected form could never be paid.
test('b30: a fault in the form, then a decline, then a good card, without a reload', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.goto(order.url)
  await hydrated(page)
  const first = await intentOf(page)
  await fillCard(page, cards.declined)
  await page.getByLabel('Name on the card').fill('')
  await payButton(page).click()
  await expectState(page, 'fields')
  await expectNoCharge(sandbox, order)
  expect(seen.intents, 'a form with faults is not sent').toEqual([])
  expect(await intentOf(page)).toBe(first)

  await page.getByLabel('Name on the card').fill('Ana Example')
  await payButton(page).click()
  await expectState(page, 'declined')
  await expect(main(page)).toContainText('Your bank said no to this payment')
  await expect(main(page)).toContainText('No money was taken')
  await expectNoCharge(sandbox, order)
  const second = await intentOf(page)
  expect(second).toMatch(versionFour)
  // Nothing that was typed is lost.
  await expect(page.getByLabel('Card number')).toHaveValue(/0002/)
  await expect(page.getByLabel('E-mail')).toHaveValue('ana@example.org')
  await expect(page.getByLabel('Security code')).toHaveValue('123')
  await expect(page.getByLabel('Name on the card')).toHaveValue('Ana Example')

  await page.getByLabel('Card number').fill(cards.good)
  await page.getByRole('button', { name: again }).click()
  const charge = await expectPaidOnce(page, sandbox, order)
  expect(seen.bodies).toHaveLength(2)
  expect(seen.bodies[0]).toMatchObject({ intent: first, replaces: null })
  expect(seen.bodies[1]).toMatchObject({ replaces: first })
  expect(seen.bodies[1]?.intent).not.toBe(first)
  expect(charge.idempotency_key).toContain(seen.bodies[1]?.intent ?? '')
})

const reasons = [
  { card: cards.noFunds, says: 'Not enough money available on this card' },
  { card: cards.expired, says: 'This card has expired' },
  { card: cards.wrongCode, says: 'The security code does not match' },
  { card: cards.lost, says: 'Your bank said no to this payment' },
]

for (const { card, says } of reasons) {
  test(`the card ${card} is declined: "${says}"`, async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.goto(order.url)
    await hydrated(page)
    await fillCard(page, card)
    await payButton(page).click()
    await expectState(page, 'declined')
    await expect(main(page)).toContainText(says)
    await expect(main(page)).toContainText('No money was taken')
    // Lost, stolen and suspected fraud are never told apart from a plain no.
    await expect(main(page)).not.toContainText(/lost|stolen|fraud/i)
    await expectNoCharge(sandbox, order)
    // The outcome page tells the same.
    await page.goto(order.outcomeUrl)
    await expectState(page, 'declined')
    await expect(main(page)).toContainText(says)
    await expectNoCharge(sandbox, order)
  })
}

test('declined twice, reloaded, then paid: three intents, one charge', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.declined)
  await payButton(page).click()
  await expectState(page, 'declined')
  await page.getByLabel('Card number').fill(cards.noFunds)
  await page.getByRole('button', { name: again }).click()
  await expect(main(page)).toContainText('Not enough money available on this card')
  await page.goto(order.url)
  await hydrated(page)
  expect(seen.intents, 'a retired key is not taken up again').not.toContain(await intentOf(page))
  await fillCard(page, cards.good)
  await page.getByRole('button', { name: again }).click()
  await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents).size).toBe(3)
})

test('a double click on a card that is declined declines it once', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 700 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.declined)
  await payButton(page).dblclick()
  await expectState(page, 'declined')
  expect(await sandbox.confirmCalls(order)).toHaveLength(1)
  await expectNoCharge(sandbox, order)
})
