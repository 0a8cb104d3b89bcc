"""The provider's official client library for Python drives the sandbox unchanged: only the address is another one.

It holds the sandbox to what such a library understands: shapes, errors and their classes, pages, idempotency, retries, signed
events.

    SANDBOX_URL=http://127.0.0.1:3001 python check.py
"""

import http.server
import json
import os
import queue
import sys
import threading
import traceback
import urllib.error
import urllib.parse
import urllib.request
import uuid

import stripe

URL = os.environ["SANDBOX_URL"].rstrip("/")
WAIT_SECONDS = 20
BACK = "https://shop.example/back"

CHECKS = []


def check(name):
    return lambda run: CHECKS.append((name, run))


def client(key="sk_test_payonce", retries=0):
    return stripe.StripeClient(key, base_addresses={"api": URL}, max_network_retries=retries).v1


API = client()


class KeepRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


WEB = urllib.request.build_opener(KeepRedirects, urllib.request.ProxyHandler({}))


def control(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"content-type": "application/json"})
    with WEB.open(request, timeout=WAIT_SECONDS) as answer:
        return json.load(answer)


def charges(order):
    return control(f"/_sandbox/ledger?order={order}")["charges"]


def create(order, **options):
    params = {"amount": 4990, "currency": "eur", "metadata": {"order": order}}
    return API.payment_intents.create(params, options)


def confirm(intent, method="pm_card_visa", api=API, options=None, **params):
    return api.payment_intents.confirm(intent, {"payment_method": method, **params}, options or {})


def pay(method="pm_card_visa"):
    return confirm(create(new()).id, method)


def new():
    return str(uuid.uuid4())


def failure(kind, run):
    try:
        run()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def same(got, wanted):
    assert got == wanted, f"{got!r} is not {wanted!r}"


@check("create, retrieve, and the version of the API")
def _():
    order = new()
    made = create(order)
    same([made.object, made.amount, made.currency, made.status], ["payment_intent", 4990, "eur", "requires_payment_method"])
    same(made.metadata["order"], order)
    same(made.last_response.headers["stripe-version"], stripe.api_version)
    same(API.payment_intents.retrieve(made.id).id, made.id)


@check("confirm, with the charge expanded")
def _():
    order = new()
    intent = create(order).id
    paid = confirm(intent, expand=["latest_charge"])
    same([paid.status, paid.amount_received], ["succeeded", 4990])
    charge = paid.latest_charge
    same([charge.object, charge.paid, charge.status, charge.payment_intent], ["charge", True, "succeeded", intent])
    same(charge.payment_method_details.card.last4, "4242")
    same([made["id"] for made in charges(order)], [charge.id])


@check("a card that the browser sends, with the publishable key")
def _():
    card = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2040, "cvc": "123"}
    method = client("pk_test_payonce").payment_methods.create({"type": "card", "card": card})
    same(pay(method.id).status, "succeeded")


def from_number(number):
    card = {"number": number, "exp_month": 12, "exp_year": 2040, "cvc": "1234" if number[:2] in ("34", "37") else "123"}
    return client("pk_test_payonce").payment_methods.create({"type": "card", "card": card}).id


@check("every card that pays, by its token")
def _():
    for token in [
        *["visa", "us", "visa_debit", "mastercard", "mastercard_debit", "mastercard_prepaid", "amex", "discover", "diners"],
        *["jcb", "unionpay", "de", "fr", "jp", "threeDSecureOptional", "pendingRefund", "refundFail", "createDispute"],
        "createDisputeProductNotReceived",
    ]:
        order = new()
        paid = confirm(create(order).id, f"pm_card_{token}")
        same(paid.status, "succeeded")
        same([made["id"] for made in charges(order)], [paid.latest_charge])


@check("every card that pays, by its number")
def _():
    for number, brand in [
        ("4242424242424242", "visa"),
        ("4000056655665556", "visa"),
        ("5555555555554444", "mastercard"),
        ("2223003122003222", "mastercard"),
        ("5200828282828210", "mastercard"),
        ("5105105105105100", "mastercard"),
        ("378282246310005", "amex"),
        ("371449635398431", "amex"),
        ("6011111111111117", "discover"),
        ("3056930009020004", "diners"),
        ("36227206271667", "diners"),
        ("3566002020360505", "jcb"),
        ("6200000000000005", "unionpay"),
        ("4000002760000016", "visa"),
        ("4000002500000003", "visa"),
        ("4000003920000003", "visa"),
        ("4000000000003055", "visa"),
    ]:
        paid = pay(from_number(number))
        card = API.charges.retrieve(paid.latest_charge).payment_method_details.card
        same([paid.status, card.brand, card.last4], ["succeeded", brand, number[-4:]])


@check("every card that is declined, by its number")
def _():
    for number, code, decline in [
        ("4000000000000002", "card_declined", "generic_decline"),
        ("4000000000009995", "card_declined", "insufficient_funds"),
        ("4000000000009987", "card_declined", "lost_card"),
        ("4000000000009979", "card_declined", "stolen_card"),
        ("4000000000000069", "expired_card", None),
        ("4000000000000127", "incorrect_cvc", None),
        ("4000000000000119", "processing_error", None),
        ("4000000000006975", "card_declined", "card_velocity_exceeded"),
        ("4000000000000341", "card_declined", "generic_decline"),
        ("4100000000000019", "card_declined", "fraudulent"),
    ]:
        order = new()
        intent = create(order).id
        method = from_number(number)
        error = failure(stripe.CardError, lambda: confirm(intent, method))
        same([error.http_status, error.code, error.error.decline_code], [402, code, decline])
        same(charges(order), [])


@check("a card that no card has is refused with its field")
def _():
    for wrong, code, param in [
        ({"number": "4242424242424241"}, "incorrect_number", "number"),
        ({"exp_month": 13}, "invalid_expiry_month", "exp_month"),
        ({"exp_year": 2001}, "invalid_expiry_year", "exp_year"),
        ({"cvc": "12"}, "invalid_cvc", "cvc"),
    ]:
        card = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2040, "cvc": "123", **wrong}
        make = client("pk_test_payonce").payment_methods.create
        error = failure(stripe.CardError, lambda: make({"type": "card", "card": card}))
        same([error.http_status, error.code], [402, code])
        assert param in error.param, error.param


def declined(token, code, decline):
    @check(f"declined: {token}")
    def _():
        order = new()
        intent = create(order).id
        error = failure(stripe.CardError, lambda: confirm(intent, token))
        same([error.http_status, error.code, error.error.decline_code], [402, code, decline])
        same([error.error.payment_intent.id, error.error.payment_intent.status], [intent, "requires_payment_method"])
        same(error.error.payment_intent.last_payment_error.code, code)
        same(API.charges.retrieve(error.error.charge).status, "failed")
        same(charges(order), [])


declined("pm_card_visa_chargeDeclined", "card_declined", "generic_decline")
declined("pm_card_chargeDeclined", "card_declined", "generic_decline")
declined("pm_card_chargeCustomerFail", "card_declined", "generic_decline")
declined("pm_card_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds")
declined("pm_card_chargeDeclinedLostCard", "card_declined", "lost_card")
declined("pm_card_chargeDeclinedStolenCard", "card_declined", "stolen_card")
declined("pm_card_chargeDeclinedVelocityLimitExceeded", "card_declined", "card_velocity_exceeded")
declined("pm_card_visa_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds")
declined("pm_card_visa_chargeDeclinedLostCard", "card_declined", "lost_card")
declined("pm_card_visa_chargeDeclinedStolenCard", "card_declined", "stolen_card")
declined("pm_card_chargeDeclinedExpiredCard", "expired_card", None)
declined("pm_card_chargeDeclinedIncorrectCvc", "incorrect_cvc", None)
declined("pm_card_chargeDeclinedProcessingError", "processing_error", None)
declined("pm_card_visa_chargeDeclinedVelocityLimitExceeded", "card_declined", "card_velocity_exceeded")
declined("pm_card_radarBlock", "card_declined", "fraudulent")


def decide(intent, decision):
    form = urllib.parse.urlencode({"decision": decision, "step": "1"}).encode()
    try:
        WEB.open(intent.next_action.redirect_to_url.url, form, timeout=WAIT_SECONDS)
    except urllib.error.HTTPError as redirect:
        return redirect.code, redirect.headers["location"]
    raise AssertionError("the bank sent nobody back")


@check("the bank approves")
def _():
    intent = create(new()).id
    asked = confirm(intent, "pm_card_authenticationRequired", return_url=BACK)
    same([asked.status, asked.next_action.type], ["requires_action", "redirect_to_url"])
    same(asked.next_action.redirect_to_url.return_url, BACK)
    same(decide(asked, "approve"), (303, f"{BACK}?payment_intent={intent}&redirect_status=succeeded"))
    same(API.payment_intents.retrieve(intent).status, "succeeded")


@check("the bank refuses")
def _():
    intent = create(new()).id
    asked = confirm(intent, "pm_card_threeDSecure2Required", return_url=BACK)
    same(decide(asked, "refuse"), (303, f"{BACK}?payment_intent={intent}&redirect_status=failed"))
    now = API.payment_intents.retrieve(intent)
    same([now.status, now.last_payment_error.code], ["requires_payment_method", "payment_intent_authentication_failure"])


@check("every card that the bank asks for")
def _():
    for token, error in [
        ("authenticationRequiredOnSetup", None),
        ("authenticationRequiredSetupForOffSession", None),
        ("authenticationRequired", None),
        ("threeDSecure2Required", None),
        ("threeDSecureRequired", None),
        ("threeDSecureRequiredChargeDeclined", ["card_declined", "generic_decline"]),
        ("authenticationRequiredChargeDeclinedInsufficientFunds", ["card_declined", "insufficient_funds"]),
    ]:
        order = new()
        intent = create(order).id
        asked = confirm(intent, f"pm_card_{token}", return_url=BACK)
        same([asked.status, charges(order)], ["requires_action", []])
        decide(asked, "approve")
        now = API.payment_intents.retrieve(intent)
        if error is None:
            same([now.status, len(charges(order))], ["succeeded", 1])
        else:
            same(now.status, "requires_payment_method")
            same([now.last_payment_error.code, now.last_payment_error.decline_code], error)
            same(charges(order), [])


@check("a bank step can be cancelled, and then nobody approves it")
def _():
    order = new()
    intent = create(order).id
    asked = confirm(intent, "pm_card_authenticationRequired", return_url=BACK)
    same(API.payment_intents.cancel(intent).status, "canceled")
    # The bank's page only says that there is nothing to decide any more.
    failure(AssertionError, lambda: decide(asked, "approve"))
    same(API.payment_intents.retrieve(intent).status, "canceled")
    same(charges(order), [])


@check("what was charged is not cancelled")
def _():
    intent = pay().id
    error = failure(stripe.InvalidRequestError, lambda: API.payment_intents.cancel(intent))
    same([error.code, error.error.payment_intent.status], ["payment_intent_unexpected_state", "succeeded"])


@check("cancel, once")
def _():
    intent = create(new()).id
    canceled = API.payment_intents.cancel(intent, {"cancellation_reason": "abandoned"})
    same([canceled.status, canceled.cancellation_reason], ["canceled", "abandoned"])
    error = failure(stripe.InvalidRequestError, lambda: confirm(intent))
    same([error.code, error.error.payment_intent.status], ["payment_intent_unexpected_state", "canceled"])


@check("refunds, and why there are no more")
def _():
    paid = pay()
    part = API.refunds.create({"payment_intent": paid.id, "amount": 1000, "reason": "requested_by_customer"})
    same([part.object, part.amount, part.status, part.charge], ["refund", 1000, "succeeded", paid.latest_charge])
    too_much = {"charge": paid.latest_charge, "amount": 3991}
    error = failure(stripe.InvalidRequestError, lambda: API.refunds.create(too_much))
    same([error.code, error.param], [None, "amount"])
    rest = {"charge": paid.latest_charge}
    same(API.refunds.create(rest).amount, 3990)
    same(failure(stripe.InvalidRequestError, lambda: API.refunds.create(rest)).code, "charge_already_refunded")
    now = API.charges.retrieve(paid.latest_charge)
    same([now.refunded, now.amount_refunded], [True, 4990])
    same([refund.amount for refund in API.refunds.list({"payment_intent": paid.id}).data], [3990, 1000])


@check("a refund that fails later")
def _():
    refund = API.refunds.create({"payment_intent": pay("pm_card_refundFail").id})
    same(refund.status, "succeeded")
    control(f"/_sandbox/refunds/{refund.id}", {"status": "failed", "failure_reason": "lost_or_stolen_card"})
    now = API.refunds.retrieve(refund.id)
    same([now.status, now.failure_reason], ["failed", "lost_or_stolen_card"])
    same(API.refunds.create({"payment_intent": pay("pm_card_pendingRefund").id}).status, "pending")


@check("a disputed charge is not refunded")
def _():
    charge = pay().latest_charge
    opened = control("/_sandbox/disputes", {"charge": charge, "reason": "product_not_received"})["id"]
    dispute = API.disputes.retrieve(opened)
    same([dispute.object, dispute.charge, dispute.status, dispute.amount], ["dispute", charge, "needs_response", 4990])
    error = failure(stripe.InvalidRequestError, lambda: API.refunds.create({"charge": charge}))
    same(error.code, "charge_disputed")
    same(API.disputes.list({"charge": charge}).data[0].id, opened)
    same(API.disputes.close(opened).status, "lost")


@check("lists in pages, read to their end")
def _():
    prefix = uuid.uuid4().hex[:12]
    created = 1_600_000_000 + int(prefix[:6], 16)
    order = {"count": 250, "created": created, "per_second": 7, "amount": 1000, "currency": "eur", "prefix": prefix}
    control("/_sandbox/charges/bulk", order)
    pages = API.charges.list({"created": {"gte": created, "lte": created + 40}, "limit": 100})
    found = [charge for charge in pages.auto_paging_iter() if charge.id.startswith(f"ch_{prefix}")]
    same(len({charge.id for charge in found}), 250)
    times = [charge.created for charge in found]
    same(times, sorted(times, reverse=True))
    page = API.charges.list({"limit": 3, "ending_before": found[10].id})
    same([charge.id for charge in page.data], [charge.id for charge in found[7:10]])
    same(page.has_more, True)


@check("an idempotency key replays, and refuses other parameters")
def _():
    order, key = new(), new()
    first, again = create(order, idempotency_key=key), create(order, idempotency_key=key)
    same(again.id, first.id)
    same(again.last_response.headers["idempotent-replayed"], "true")
    error = failure(stripe.IdempotencyError, lambda: create(new(), idempotency_key=key))
    same(error.http_status, 400)


@check("payment intents and refunds, page after page to their end")
def _():
    made = [pay().id for _ in range(5)]
    first = API.payment_intents.retrieve(made[0])
    pages = API.payment_intents.list({"created": {"gte": first.created}, "limit": 2})
    seen = [intent.id for intent in pages.auto_paging_iter()]
    same(len(set(seen)), len(seen))
    same([intent for intent in seen if intent in made], made[::-1])
    for n in range(5):
        API.refunds.create({"payment_intent": made[0], "amount": 100 + n})
    refunds = API.refunds.list({"payment_intent": made[0], "limit": 2}).auto_paging_iter()
    same([refund.amount for refund in refunds], [104, 103, 102, 101, 100])


@check("confirm, cancel and refund are replayed under their keys, and refuse other parameters")
def _():
    order = new()
    intent = create(order).id
    paying, refunding, cancelling = ({"idempotency_key": new()} for _ in range(3))
    first, again = [confirm(intent, options=paying) for _ in range(2)]
    same(again.latest_charge, first.latest_charge)
    same(again.last_response.headers["idempotent-replayed"], "true")
    failure(stripe.IdempotencyError, lambda: confirm(intent, "pm_card_mastercard", options=paying))

    def refund(amount):
        return API.refunds.create({"payment_intent": intent, "amount": amount}, refunding)

    same(refund(1000).id, refund(1000).id)
    failure(stripe.IdempotencyError, lambda: refund(1001))
    other = create(new()).id

    def cancel(which):
        return API.payment_intents.cancel(which, {}, cancelling)

    same(cancel(other).canceled_at, cancel(other).canceled_at)
    failure(stripe.IdempotencyError, lambda: cancel(intent))
    same([(made["amount"], made["refunded"]) for made in charges(order)], [(4990, 1000)])


@check("a decline is replayed too")
def _():
    intent, options = create(new()).id, {"idempotency_key": new()}
    first, again = [
        failure(stripe.CardError, lambda: confirm(intent, "pm_card_chargeDeclined", options=options)) for _ in range(2)
    ]
    same(first.error.charge, again.error.charge)
    same(again.headers["idempotent-replayed"], "true")


@check("other errors have their classes")
def _():
    missing = failure(stripe.InvalidRequestError, lambda: API.payment_intents.retrieve("pi_none"))
    same([missing.http_status, missing.code], [404, "resource_missing"])
    failure(stripe.AuthenticationError, lambda: client("sk_test_other").payment_intents.list())
    order = new()
    intent = create(order).id
    for fault, kind in [
        ({"kind": "status", "status": 429}, stripe.RateLimitError),
        ({"kind": "error_500"}, stripe.APIError),
        ({"kind": "drop_before"}, stripe.APIConnectionError),
    ]:
        control("/_sandbox/faults", {"match": {"path": "confirm", "order": order}, "fault": fault, "next": 1})
        failure(kind, lambda: confirm(intent))
    same(charges(order), [])


@check("the library's own retries charge once")
def _():
    for kind in ["charge_then_drop", "charge_then_500", "error_500", "conflict_409"]:
        order = new()
        intent = create(order).id
        control("/_sandbox/faults", {"match": {"path": "confirm", "order": order}, "fault": {"kind": kind}, "next": 1})
        same(confirm(intent, api=client(retries=3)).status, "succeeded")
        same(len(charges(order)), 1)


@check("events tell what happened")
def _():
    intent = pay().id
    kinds = []
    listed = API.events.list({"types": ["payment_intent.created", "payment_intent.succeeded"], "limit": 2})
    for event in listed.auto_paging_iter():
        if event.data.object["id"] == intent:
            kinds.append(event.type)
            same(API.events.retrieve(event.id).type, event.type)
        if len(kinds) == 2:
            break
    same(kinds, ["payment_intent.succeeded", "payment_intent.created"])


@check("every change of a payment has its event, in its order")
def _():
    intent = create(new()).id
    failure(stripe.CardError, lambda: confirm(intent, "pm_card_chargeDeclined"))
    charge = confirm(intent).latest_charge
    API.refunds.create({"charge": charge, "amount": 100})
    ours = []
    for event in API.events.list({"limit": 10}).auto_paging_iter():
        about = event.data.object.to_dict()
        if intent in (about["id"], about.get("payment_intent")):
            same([event.object, event.api_version], ["event", stripe.api_version])
            ours.append(event.type)
        if event.type == "payment_intent.created" and about["id"] == intent:
            break
    for kind in [
        *["payment_intent.created", "payment_intent.payment_failed", "charge.failed", "payment_intent.succeeded"],
        *["charge.succeeded", "charge.refunded", "refund.created"],
    ]:
        assert kind in ours, f"{kind} is not in {ours}"
    assert ours.index("payment_intent.succeeded") < ours.index("payment_intent.payment_failed"), ours


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.arrived.put((body, self.headers["stripe-signature"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@check("a delivered event is verified, and a spoilt one is not")
def _():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.arrived = queue.Queue()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/hook"
    endpoint = API.webhook_endpoints.create({"url": address, "enabled_events": ["payment_intent.succeeded"]})
    construct = stripe.Webhook.construct_event
    try:
        intent = pay().id
        body, signature = server.arrived.get(timeout=WAIT_SECONDS)
        event = construct(body, signature, endpoint.secret)
        same([event.object, event.type, event.data.object["id"]], ["event", "payment_intent.succeeded", intent])
        for spoilt, header, secret in [
            (body + b" ", signature, endpoint.secret),
            (body, signature, "whsec_other"),
        ]:
            failure(stripe.SignatureVerificationError, lambda: construct(spoilt, header, secret))
        deliver = f"/_sandbox/events/{event.id}/deliver"
        for forgery in [
            "wrong_secret",
            "bad_signature",
            "altered_body",
            "altered_timestamp",
            "old_timestamp",
            "other_scheme",
            "no_timestamp",
        ]:
            control(deliver, {"endpoint": endpoint.id, "faults": [{"kind": "forged", "forgery": forgery}]})
            spoilt, header = server.arrived.get(timeout=WAIT_SECONDS)
            failure(stripe.SignatureVerificationError, lambda: construct(spoilt, header, endpoint.secret))
        # While a secret is rotated, both the old one and the new one verify.
        rotated = control(f"/_sandbox/webhook_endpoints/{endpoint.id}/rotate", {})
        control(deliver, {"endpoint": endpoint.id})
        body, signature = server.arrived.get(timeout=WAIT_SECONDS)
        for secret in [endpoint.secret, rotated["secret"]]:
            same(construct(body, signature, secret).id, event.id)
    finally:
        same(API.webhook_endpoints.delete(endpoint.id).deleted, True)
        server.shutdown()
        server.server_close()


def main():
    failed = 0
    for name, run in CHECKS:
        try:
            run()
            print(f"ok: {name}")
        except Exception:
            failed += 1
            print(f"failed: {name}\n{traceback.format_exc()}")
    print(f"\nstripe {stripe.VERSION} for Python; {len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
