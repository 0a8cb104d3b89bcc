// The provider's official client library for Node drives the sandbox unchanged: only the address is another one. It holds the
// sandbox to what such a library understands: shapes, errors and their classes, pages, idempotency, retries, signed events.
//
//     SANDBOX_URL=http://127.0.0.1:3001 node check.mjs

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import Stripe from 'stripe';

const url = new URL(process.env.SANDBOX_URL);
const address = { host: url.hostname, port: url.port, protocol: 'http', telemetry: false };
const client = (key, options = {}) => new Stripe(key, { ...address, maxNetworkRetries: 0, ...options });
const stripe = client('sk_test_payonce');

const checks = [];
const check = (name, run) => checks.push({ name, run });

const control = async (method, path, body) => {
  const answer = await fetch(new URL(path, url), {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  assert.equal(answer.status, 200, `${method} ${path}: ${answer.status}`);
  return answer.json();
};
const charges = async (order) => (await control('GET', `/_sandbox/ledger?order=${order}`)).charges;

const create = (order, options) =>
  stripe.paymentIntents.create({ amount: 4990, currency: 'eur', metadata: { order } }, options);
const pay = async (order, method = 'pm_card_visa') =>
  stripe.paymentIntents.confirm((await create(order)).id, { payment_method: method });
const failure = async (promise) => {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.fail('it did not fail');
};

check('create, retrieve, and the version of the API', async () => {
  const order = randomUUID();
  const made = await create(order);
  assert.deepEqual([made.object, made.amount, made.currency, made.status], ['payment_intent', 4990, 'eur', 'requires_payment_method']);
  assert.deepEqual(made.metadata, { order });
  assert.ok(made.client_secret.startsWith(`${made.id}_secret_`));
  assert.equal(made.lastResponse.apiVersion, Stripe.API_VERSION);
  assert.ok(made.lastResponse.requestId.startsWith('req_'));
  assert.equal((await stripe.paymentIntents.retrieve(made.id)).id, made.id);
});

check('confirm, with the charge expanded', async () => {
  const order = randomUUID();
  const { id } = await create(order);
  const paid = await stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_visa', expand: ['latest_charge'] });
  assert.equal(paid.status, 'succeeded');
  assert.equal(paid.amount_received, 4990);
  const charge = paid.latest_charge;
  assert.deepEqual([charge.object, charge.paid, charge.status, charge.payment_intent], ['charge', true, 'succeeded', id]);
  assert.equal(charge.payment_method_details.card.last4, '4242');
  assert.deepEqual((await charges(order)).map((made) => made.id), [charge.id]);
});

check('a card that the browser sends, with the publishable key', async () => {
  const card = { number: '4242424242424242', exp_month: 12, exp_year: 2040, cvc: '123' };
  const method = await client('pk_test_payonce').paymentMethods.create({ type: 'card', card });
  assert.equal((await pay(randomUUID(), method.id)).status, 'succeeded');
});

check('every card that pays, by its token', async () => {
  for (const token of [
    'visa', 'us', 'visa_debit', 'mastercard', 'mastercard_debit', 'mastercard_prepaid', 'amex', 'discover', 'diners', 'jcb',
    'unionpay', 'de', 'fr', 'jp', 'threeDSecureOptional', 'pendingRefund', 'refundFail', 'createDispute',
    'createDisputeProductNotReceived',
  ]) {
    const order = randomUUID();
    const { status, latest_charge: charge } = await pay(order, `pm_card_${token}`);
    assert.equal(status, 'succeeded', token);
    assert.deepEqual((await charges(order)).map((made) => made.id), [charge], token);
  }
});

const fromNumber = async (number) => {
  const card = { number, exp_month: 12, exp_year: 2040, cvc: /^3[47]/.test(number) ? '1234' : '123' };
  return (await client('pk_test_payonce').paymentMethods.create({ type: 'card', card })).id;
};

check('every card that pays, by its number', async () => {
  for (const [number, brand] of [
    ['4242424242424242', 'visa'], ['4000056655665556', 'visa'], ['5555555555554444', 'mastercard'],
    ['2223003122003222', 'mastercard'], ['5200828282828210', 'mastercard'], ['5105105105105100', 'mastercard'],
    ['378282246310005', 'amex'], ['371449635398431', 'amex'], ['6011111111111117', 'discover'],
    ['3056930009020004', 'diners'], ['36227206271667', 'diners'], ['3566002020360505', 'jcb'],
    ['6200000000000005', 'unionpay'], ['4000002760000016', 'visa'], ['4000002500000003', 'visa'],
    ['4000003920000003', 'visa'], ['4000000000003055', 'visa'],
  ]) {
    const paid = await pay(randomUUID(), await fromNumber(number));
    const { brand: told, last4 } = (await stripe.charges.retrieve(paid.latest_charge)).payment_method_details.card;
    assert.deepEqual([paid.status, told, last4], ['succeeded', brand, number.slice(-4)], number);
  }
});

check('every card that is declined, by its number', async () => {
  for (const [number, code, decline] of [
    ['4000000000000002', 'card_declined', 'generic_decline'],
    ['4000000000009995', 'card_declined', 'insufficient_funds'],
    ['4000000000009987', 'card_declined', 'lost_card'],
    ['4000000000009979', 'card_declined', 'stolen_card'],
    ['4000000000000069', 'expired_card', undefined],
    ['4000000000000127', 'incorrect_cvc', undefined],
    ['4000000000000119', 'processing_error', undefined],
    ['4000000000006975', 'card_declined', 'card_velocity_exceeded'],
    ['4000000000000341', 'card_declined', 'generic_decline'],
    ['4100000000000019', 'card_declined', 'fraudulent'],
  ]) {
    const order = randomUUID();
    const { id } = await create(order);
    const error = await failure(stripe.paymentIntents.confirm(id, { payment_method: await fromNumber(number) }));
    assert.ok(error instanceof Stripe.errors.StripeCardError, number);
    assert.deepEqual([error.statusCode, error.code, error.decline_code || undefined], [402, code, decline], number);
    assert.deepEqual(await charges(order), [], number);
  }
});

check('a card that no card has is refused with its field', async () => {
  for (const [card, code, param] of [
    [{ number: '4242424242424241' }, 'incorrect_number', 'number'],
    [{ exp_month: 13 }, 'invalid_expiry_month', 'exp_month'],
    [{ exp_year: 2001 }, 'invalid_expiry_year', 'exp_year'],
    [{ cvc: '12' }, 'invalid_cvc', 'cvc'],
  ]) {
    const whole = { number: '4242424242424242', exp_month: 12, exp_year: 2040, cvc: '123', ...card };
    const error = await failure(client('pk_test_payonce').paymentMethods.create({ type: 'card', card: whole }));
    assert.ok(error instanceof Stripe.errors.StripeCardError, code);
    assert.deepEqual([error.statusCode, error.code], [402, code]);
    assert.ok(error.param.includes(param), `${error.param} is not ${param}`);
  }
});

for (const [token, code, decline] of [
  ['pm_card_visa_chargeDeclined', 'card_declined', 'generic_decline'],
  ['pm_card_chargeDeclined', 'card_declined', 'generic_decline'],
  ['pm_card_chargeCustomerFail', 'card_declined', 'generic_decline'],
  ['pm_card_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
  ['pm_card_chargeDeclinedLostCard', 'card_declined', 'lost_card'],
  ['pm_card_chargeDeclinedStolenCard', 'card_declined', 'stolen_card'],
  ['pm_card_chargeDeclinedVelocityLimitExceeded', 'card_declined', 'card_velocity_exceeded'],
  ['pm_card_visa_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
  ['pm_card_visa_chargeDeclinedLostCard', 'card_declined', 'lost_card'],
  ['pm_card_visa_chargeDeclinedStolenCard', 'card_declined', 'stolen_card'],
  ['pm_card_chargeDeclinedExpiredCard', 'expired_card', undefined],
  ['pm_card_chargeDeclinedIncorrectCvc', 'incorrect_cvc', undefined],
  ['pm_card_chargeDeclinedProcessingError', 'processing_error', undefined],
  ['pm_card_visa_chargeDeclinedVelocityLimitExceeded', 'card_declined', 'card_velocity_exceeded'],
  ['pm_card_radarBlock', 'card_declined', 'fraudulent'],
]) {
  check(`declined: ${token}`, async () => {
    const order = randomUUID();
    const { id } = await create(order);
    const error = await failure(stripe.paymentIntents.confirm(id, { payment_method: token }));
    assert.ok(error instanceof Stripe.errors.StripeCardError, String(error));
    // The library makes an empty text of a decline code that is not there.
    assert.deepEqual([error.statusCode, error.code, error.decline_code || undefined], [402, code, decline]);
    assert.deepEqual([error.payment_intent.id, error.payment_intent.status], [id, 'requires_payment_method']);
    assert.equal(error.payment_intent.last_payment_error.code, code);
    assert.equal((await stripe.charges.retrieve(error.charge)).status, 'failed');
    assert.deepEqual(await charges(order), []);
  });
}

const decide = async (intent, decision) => {
  const page = await fetch(intent.next_action.redirect_to_url.url, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ decision, step: '1' }),
  });
  return [page.status, page.headers.get('location')];
};

check('the bank approves', async () => {
  const { id } = await create(randomUUID());
  const back = 'https://shop.example/back?lang=de';
  const asked = await stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_authenticationRequired', return_url: back });
  assert.deepEqual([asked.status, asked.next_action.type], ['requires_action', 'redirect_to_url']);
  assert.equal(asked.next_action.redirect_to_url.return_url, back);
  assert.deepEqual(await decide(asked, 'approve'), [303, `${back}&payment_intent=${id}&redirect_status=succeeded`]);
  assert.equal((await stripe.paymentIntents.retrieve(id)).status, 'succeeded');
});

check('the bank refuses', async () => {
  const { id } = await create(randomUUID());
  const back = 'https://shop.example/back';
  const asked = await stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_threeDSecure2Required', return_url: back });
  assert.deepEqual(await decide(asked, 'refuse'), [303, `${back}?payment_intent=${id}&redirect_status=failed`]);
  const now = await stripe.paymentIntents.retrieve(id);
  assert.deepEqual([now.status, now.last_payment_error.code], ['requires_payment_method', 'payment_intent_authentication_failure']);
});

check('every card that the bank asks for', async () => {
  for (const [token, code, decline] of [
    ['authenticationRequiredOnSetup'],
    ['authenticationRequiredSetupForOffSession'],
    ['authenticationRequired'],
    ['threeDSecure2Required'],
    ['threeDSecureRequired'],
    ['threeDSecureRequiredChargeDeclined', 'card_declined', 'generic_decline'],
    ['authenticationRequiredChargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
  ]) {
    const order = randomUUID();
    const { id } = await create(order);
    const asked = await stripe.paymentIntents.confirm(id, { payment_method: `pm_card_${token}`, return_url: 'https://shop.example/' });
    assert.equal(asked.status, 'requires_action', token);
    assert.deepEqual(await charges(order), [], token);
    await decide(asked, 'approve');
    const now = await stripe.paymentIntents.retrieve(id);
    if (code === undefined) {
      assert.deepEqual([now.status, (await charges(order)).length], ['succeeded', 1], token);
    } else {
      const { code: told, decline_code: why } = now.last_payment_error;
      assert.deepEqual([now.status, told, why], ['requires_payment_method', code, decline], token);
      assert.deepEqual(await charges(order), [], token);
    }
  }
});

check('a bank step can be cancelled, and then nobody approves it', async () => {
  const order = randomUUID();
  const { id } = await create(order);
  const asked = await stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_authenticationRequired', return_url: 'https://shop.example/' });
  assert.equal((await stripe.paymentIntents.cancel(id)).status, 'canceled');
  // The bank's page only says that there is nothing to decide any more.
  assert.equal((await decide(asked, 'approve'))[1], null);
  assert.equal((await stripe.paymentIntents.retrieve(id)).status, 'canceled');
  assert.deepEqual(await charges(order), []);
});

check('what was charged is not cancelled', async () => {
  const { id } = await pay(randomUUID());
  const error = await failure(stripe.paymentIntents.cancel(id));
  assert.ok(error instanceof Stripe.errors.StripeInvalidRequestError);
  assert.deepEqual([error.code, error.payment_intent.status], ['payment_intent_unexpected_state', 'succeeded']);
});

check('cancel, once', async () => {
  const { id } = await create(randomUUID());
  const canceled = await stripe.paymentIntents.cancel(id, { cancellation_reason: 'abandoned' });
  assert.deepEqual([canceled.status, canceled.cancellation_reason], ['canceled', 'abandoned']);
  const error = await failure(stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_visa' }));
  assert.ok(error instanceof Stripe.errors.StripeInvalidRequestError);
  assert.deepEqual([error.code, error.payment_intent.status], ['payment_intent_unexpected_state', 'canceled']);
});

check('refunds, and why there are no more', async () => {
  const { id, latest_charge: charge } = await pay(randomUUID());
  const part = await stripe.refunds.create({ payment_intent: id, amount: 1000, reason: 'requested_by_customer' });
  assert.deepEqual([part.object, part.amount, part.status, part.charge], ['refund', 1000, 'succeeded', charge]);
  const tooMuch = await failure(stripe.refunds.create({ charge, amount: 3991 }));
  assert.ok(tooMuch instanceof Stripe.errors.StripeInvalidRequestError);
  assert.deepEqual([tooMuch.code, tooMuch.param], [undefined, 'amount']);
  assert.equal((await stripe.refunds.create({ charge })).amount, 3990);
  assert.equal((await failure(stripe.refunds.create({ charge }))).code, 'charge_already_refunded');
  const now = await stripe.charges.retrieve(charge);
  assert.deepEqual([now.refunded, now.amount_refunded], [true, 4990]);
  const listed = await stripe.refunds.list({ payment_intent: id });
  assert.deepEqual(listed.data.map((refund) => refund.amount), [3990, 1000]);
});

check('a refund that fails later', async () => {
  const { id } = await pay(randomUUID(), 'pm_card_refundFail');
  const refund = await stripe.refunds.create({ payment_intent: id });
  assert.equal(refund.status, 'succeeded');
  await control('POST', `/_sandbox/refunds/${refund.id}`, { status: 'failed', failure_reason: 'lost_or_stolen_card' });
  const now = await stripe.refunds.retrieve(refund.id);
  assert.deepEqual([now.status, now.failure_reason], ['failed', 'lost_or_stolen_card']);
  const pending = await pay(randomUUID(), 'pm_card_pendingRefund');
  assert.equal((await stripe.refunds.create({ payment_intent: pending.id })).status, 'pending');
});

check('a disputed charge is not refunded', async () => {
  const { latest_charge: charge } = await pay(randomUUID());
  const { id } = await control('POST', '/_sandbox/disputes', { charge, reason: 'product_not_received' });
  const dispute = await stripe.disputes.retrieve(id);
  assert.deepEqual([dispute.object, dispute.charge, dispute.status, dispute.amount], ['dispute', charge, 'needs_response', 4990]);
  assert.equal((await failure(stripe.refunds.create({ charge }))).code, 'charge_disputed');
  assert.equal((await stripe.disputes.list({ charge })).data[0].id, id);
  assert.equal((await stripe.disputes.close(id)).status, 'lost');
});

check('lists in pages, read to their end', async () => {
  const prefix = randomUUID().replaceAll('-', '').slice(0, 12);
  const created = 1_600_000_000 + Number.parseInt(prefix.slice(0, 6), 16);
  const order = { count: 250, created, per_second: 7, amount: 1000, currency: 'eur', prefix };
  await control('POST', '/_sandbox/charges/bulk', order);
  const found = [];
  for await (const charge of stripe.charges.list({ created: { gte: created, lte: created + 40 }, limit: 100 })) {
    if (charge.id.startsWith(`ch_${prefix}`)) {
      found.push(charge);
    }
  }
  assert.equal(new Set(found.map((charge) => charge.id)).size, 250);
  assert.ok(found.every((charge, index) => index === 0 || found[index - 1].created >= charge.created));
  const page = await stripe.charges.list({ limit: 3, ending_before: found[10].id });
  assert.deepEqual(page.data.map((charge) => charge.id), found.slice(7, 10).map((charge) => charge.id));
  assert.equal(page.has_more, true);
});

check('an idempotency key replays, and refuses other parameters', async () => {
  const [order, idempotencyKey] = [randomUUID(), randomUUID()];
  const first = await create(order, { idempotencyKey });
  const again = await create(order, { idempotencyKey });
  assert.equal(again.id, first.id);
  assert.equal(again.lastResponse.headers['idempotent-replayed'], 'true');
  const error = await failure(create(randomUUID(), { idempotencyKey }));
  assert.ok(error instanceof Stripe.errors.StripeIdempotencyError, String(error));
  assert.equal(error.statusCode, 400);
});

check('payment intents and refunds, page after page to their end', async () => {
  const made = [];
  for (let n = 0; n < 5; n += 1) {
    made.push((await pay(randomUUID())).id);
  }
  const first = await stripe.paymentIntents.retrieve(made[0]);
  const seen = [];
  for await (const intent of stripe.paymentIntents.list({ created: { gte: first.created }, limit: 2 })) {
    seen.push(intent.id);
  }
  assert.equal(new Set(seen).size, seen.length);
  assert.deepEqual(seen.filter((id) => made.includes(id)), made.toReversed());
  for (let n = 0; n < 5; n += 1) {
    await stripe.refunds.create({ payment_intent: made[0], amount: 100 + n });
  }
  const refunds = await stripe.refunds.list({ payment_intent: made[0], limit: 2 }).autoPagingToArray({ limit: 100 });
  assert.deepEqual(refunds.map((refund) => refund.amount), [104, 103, 102, 101, 100]);
});

check('confirm, cancel and refund are replayed under their keys, and refuse other parameters', async () => {
  const order = randomUUID();
  const { id } = await create(order);
  const [paying, refunding, cancelling] = [randomUUID(), randomUUID(), randomUUID()];
  const confirm = (payment_method) => stripe.paymentIntents.confirm(id, { payment_method }, { idempotencyKey: paying });
  const first = await confirm('pm_card_visa');
  const again = await confirm('pm_card_visa');
  assert.deepEqual([again.latest_charge, again.lastResponse.headers['idempotent-replayed']], [first.latest_charge, 'true']);
  assert.ok((await failure(confirm('pm_card_mastercard'))) instanceof Stripe.errors.StripeIdempotencyError);
  const refund = (amount) => stripe.refunds.create({ payment_intent: id, amount }, { idempotencyKey: refunding });
  assert.equal((await refund(1000)).id, (await refund(1000)).id);
  assert.ok((await failure(refund(1001))) instanceof Stripe.errors.StripeIdempotencyError);
  const other = await create(randomUUID());
  const cancel = (intent) => stripe.paymentIntents.cancel(intent, {}, { idempotencyKey: cancelling });
  assert.equal((await cancel(other.id)).canceled_at, (await cancel(other.id)).canceled_at);
  assert.ok((await failure(cancel(id))) instanceof Stripe.errors.StripeIdempotencyError);
  const [charge] = await charges(order);
  assert.deepEqual([(await charges(order)).length, charge.refunded], [1, 1000]);
});

check('a decline is replayed too', async () => {
  const { id } = await create(randomUUID());
  const idempotencyKey = randomUUID();
  const confirm = () => failure(stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_chargeDeclined' }, { idempotencyKey }));
  const [first, again] = [await confirm(), await confirm()];
  assert.equal(first.charge, again.charge);
  assert.equal(again.headers['idempotent-replayed'], 'true');
});

check('other errors have their classes', async () => {
  const missing = await failure(stripe.paymentIntents.retrieve('pi_none'));
  assert.ok(missing instanceof Stripe.errors.StripeInvalidRequestError);
  assert.deepEqual([missing.statusCode, missing.code], [404, 'resource_missing']);
  const unknown = await failure(client('sk_test_other').paymentIntents.list());
  assert.ok(unknown instanceof Stripe.errors.StripeAuthenticationError);
  const order = randomUUID();
  const { id } = await create(order);
  const confirm = () => failure(stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_visa' }));
  const fault = (kind, next = 1) =>
    control('POST', '/_sandbox/faults', { match: { path: 'confirm', order }, fault: kind, next });
  await fault({ kind: 'status', status: 429 });
  assert.ok((await confirm()) instanceof Stripe.errors.StripeRateLimitError);
  await fault({ kind: 'error_500' });
  assert.ok((await confirm()) instanceof Stripe.errors.StripeAPIError);
  // Whatever it is told about retries, it tries once more on a connection that was reset.
  await fault({ kind: 'drop_before' }, 2);
  assert.ok((await confirm()) instanceof Stripe.errors.StripeConnectionError);
  assert.deepEqual(await charges(order), []);
});

check("the library's own retries charge once", async () => {
  for (const kind of ['charge_then_drop', 'charge_then_500', 'error_500', 'conflict_409']) {
    const order = randomUUID();
    const { id } = await create(order);
    await control('POST', '/_sandbox/faults', { match: { path: 'confirm', order }, fault: { kind }, next: 1 });
    const retrying = client('sk_test_payonce', { maxNetworkRetries: 3 });
    const paid = await retrying.paymentIntents.confirm(id, { payment_method: 'pm_card_visa' });
    assert.equal(paid.status, 'succeeded', kind);
    assert.equal((await charges(order)).length, 1, kind);
  }
});

check('events tell what happened', async () => {
  const order = randomUUID();
  const { id } = await pay(order);
  const kinds = [];
  for await (const event of stripe.events.list({ types: ['payment_intent.created', 'payment_intent.succeeded'], limit: 2 })) {
    if (event.data.object.id !== id) {
      continue;
    }
    kinds.push(event.type);
    assert.equal((await stripe.events.retrieve(event.id)).type, event.type);
    if (kinds.length === 2) {
      break;
    }
  }
  assert.deepEqual(kinds, ['payment_intent.succeeded', 'payment_intent.created']);
});

check('every change of a payment has its event, in its order', async () => {
  const order = randomUUID();
  const { id } = await create(order);
  await failure(stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_chargeDeclined' }));
  const { latest_charge: charge } = await stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_visa' });
  await stripe.refunds.create({ charge, amount: 100 });
  const ours = [];
  for await (const event of stripe.events.list({ limit: 10 })) {
    const { id: of, payment_intent: intent } = event.data.object;
    if (of === id || intent === id) {
      assert.deepEqual([event.object, event.api_version], ['event', Stripe.API_VERSION]);
      ours.push(event.type);
    }
    if (event.type === 'payment_intent.created' && of === id) {
      break;
    }
  }
  for (const type of ['payment_intent.created', 'payment_intent.payment_failed', 'charge.failed', 'payment_intent.succeeded', 'charge.succeeded', 'charge.refunded', 'refund.created']) {
    assert.ok(ours.includes(type), `${type} is not in ${ours}`);
  }
  assert.ok(ours.indexOf('payment_intent.succeeded') < ours.indexOf('payment_intent.payment_failed'), String(ours));
});

check('a delivered event is verified, and a spoilt one is not', async () => {
  const arrived = [];
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) {
      parts.push(part);
    }
    arrived.push({ body: Buffer.concat(parts), signature: request.headers['stripe-signature'] });
    server.emit('arrived');
    response.writeHead(200).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const until = async (found) => {
    while (!arrived.some(found)) {
      await once(server, 'arrived', { signal: AbortSignal.timeout(20_000) });
    }
    return arrived.find(found);
  };
  const endpoint = await stripe.webhookEndpoints.create({
    url: `http://127.0.0.1:${server.address().port}/hook`,
    enabled_events: ['payment_intent.succeeded'],
  });
  try {
    const { id } = await pay(randomUUID());
    const of = ({ body }) => body.includes(id);
    const { body, signature } = await until(of);
    const event = stripe.webhooks.constructEvent(body, signature, endpoint.secret);
    assert.deepEqual([event.object, event.type, event.data.object.id], ['event', 'payment_intent.succeeded', id]);
    const refused = (spoilt, header, secret) => {
      assert.throws(
        () => stripe.webhooks.constructEvent(spoilt, header, secret),
        Stripe.errors.StripeSignatureVerificationError,
      );
    };
    refused(Buffer.concat([body, Buffer.from(' ')]), signature, endpoint.secret);
    refused(body, signature, 'whsec_other');
    for (const forgery of ['wrong_secret', 'bad_signature', 'altered_body', 'altered_timestamp', 'old_timestamp', 'other_scheme', 'no_timestamp']) {
      const count = arrived.length;
      await control('POST', `/_sandbox/events/${event.id}/deliver`, { endpoint: endpoint.id, faults: [{ kind: 'forged', forgery }] });
      assert.equal(arrived.length, count + 1, forgery);
      refused(arrived[count].body, arrived[count].signature, endpoint.secret);
    }
    // While a secret is rotated, both the old one and the new one verify.
    const rotated = await control('POST', `/_sandbox/webhook_endpoints/${endpoint.id}/rotate`, {});
    await control('POST', `/_sandbox/events/${event.id}/deliver`, { endpoint: endpoint.id });
    const both = arrived.at(-1);
    for (const secret of [endpoint.secret, rotated.secret]) {
      assert.equal(stripe.webhooks.constructEvent(both.body, both.signature, secret).id, event.id);
    }
  } finally {
    const deleted = await stripe.webhookEndpoints.del(endpoint.id);
    assert.equal(deleted.deleted, true);
    server.close();
    server.closeAllConnections();
  }
});

let failed = 0;
for (const { name, run } of checks) {
  try {
    await run();
    console.log(`ok: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`failed: ${name}\n${error.stack ?? error}`);
  }
}
console.log(`\nstripe ${Stripe.PACKAGE_VERSION} for Node; ${checks.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
