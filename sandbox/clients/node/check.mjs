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

for (const [token, code, decline] of [
  ['pm_card_visa_chargeDeclined', 'card_declined', 'generic_decline'],
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
