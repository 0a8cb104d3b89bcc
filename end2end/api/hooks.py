"""What schemathesis cannot know: which orders there are, which keys were used, and which cards do what.

Left to itself it would find nothing but 401, 404 and 422. Half of the requests keep what it generated; the others get real ids,
keys and payment methods, so that the paths behind are reached as well. Everything is drawn from one seed. Counts what was
answered, per operation and status, and writes that down at the end.
"""

import atexit
import collections
import json
import os
import random
import uuid

import schemathesis

API_KEY = os.environ["API_KEY"]
COUNTS = os.environ["API_COUNTS"]

# Newest orders and intents that are used again; few, so that they meet.
MEMORY = 40

CARDS = ["pm_card_visa"] * 5 + [
    "pm_card_mastercard",
    "pm_card_chargeDeclined",
    "pm_card_visa_chargeDeclinedInsufficientFunds",
    "pm_card_threeDSecureRequired",
]
SKUS = ["mug", "notebook", "lamp", "clock", "tenugui"]

dice = random.Random(20_261_201)
counts: collections.Counter = collections.Counter()
orders: collections.deque = collections.deque(maxlen=MEMORY)
unpaid: collections.deque = collections.deque(maxlen=1_000)
payments: collections.deque = collections.deque(maxlen=MEMORY)
refunds: collections.deque = collections.deque(maxlen=MEMORY)
order_keys: collections.deque = collections.deque(maxlen=MEMORY)


def new_uuid() -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = case.operation.definition.raw["operationId"]
    # One in thirty comes without a key, and one in thirty with a wrong one.
    authorization = dice.choice([None, "Bearer payonce_" + "x" * 32] + [f"Bearer {API_KEY}"] * 28)
    if authorization is None:
        case.headers.pop("Authorization", None)
    else:
        case.headers["Authorization"] = authorization
    if case.method.upper() == case.operation.method.upper() and dice.random() < 0.6:
        MAKE[operation](case)


def order(case):
    key = dice.choice(list(order_keys)) if order_keys and dice.random() < 0.3 else new_uuid()
    case.headers["Idempotency-Key"] = key
    order_keys.append(key)
    if dice.random() < 0.5:
        line = {"sku": dice.choice(SKUS), "quantity": dice.choice([1, 1, 2, 30])}
    else:
        line = {"name": "Gift wrapping", "unit_amount": dice.choice([350, 350, 990, 4990, 1]), "quantity": 1}
    send(case, {"currency": "EUR", "lines": [line]})


def payment(case):
    if not orders:
        return
    if payments and dice.random() < 0.3:
        # The same again, or another request under the same key.
        path, key, body = dice.choice(list(payments))
        if dice.random() < 0.3:
            body = {**body, "payment_method": "pm_card_amex"}
    else:
        made = unpaid.pop() if unpaid and dice.random() < 0.7 else dice.choice(list(orders))
        path, key = made["id"], new_uuid()
        amount = made["amount"] + dice.choice([0] * 9 + [1])
        body = {"payment_method": dice.choice(CARDS), "amount": amount, "currency": made["currency"]}
        if dice.random() < 0.2:
            body["replaces"] = dice.choice(list(payments))[1] if payments else new_uuid()
        payments.append((path, key, body))
    case.path_parameters["id"] = path
    case.headers["Idempotency-Key"] = key
    case.headers["Prefer"] = f"wait={dice.choice([0, 1, 5])}"
    send(case, body)


def refund(case):
    if refunds and dice.random() < 0.3:
        # The same again, or another request under the same key.
        path, key, body = dice.choice(list(refunds))
        if dice.random() < 0.3:
            body = {**body, "amount": body["amount"] + 1}
    elif payments:
        path, key = dice.choice(list(payments))[0], new_uuid()
        body = {"amount": dice.choice([1, 100, 350, 5000]), **dice.choice([{}, {"reason": "duplicate"}, {"currency": "EUR"}])}
        refunds.append((path, key, body))
    else:
        return
    case.path_parameters["id"] = path
    case.headers["Idempotency-Key"] = key
    case.headers["Prefer"] = f"wait={dice.choice([0, 1, 5])}"
    send(case, body)


def one_order(case):
    if orders:
        case.path_parameters["id"] = dice.choice(list(orders))["id"]


def one_intent(case):
    if payments:
        path, key, _ = dice.choice(list(payments))
        case.path_parameters["uuid"] = key
        case.query = {"order": path} if dice.random() < 0.5 else {}


MAKE = {
    "createOrder": order,
    "payOrder": payment,
    "refundOrder": refund,
    "readOrder": one_order,
    "readIntent": one_intent,
}


def send(case, body):
    case.body = body
    case.media_type = "application/json"


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation.definition.raw["operationId"]
    counts[f"{case.method.upper()} {operation}", response.status_code] += 1
    if operation == "createOrder" and response.status_code == 201:
        orders.append(response.json())
        unpaid.append(response.json())


@atexit.register
def write_down():
    rows = [{"operation": name, "status": status, "count": n} for (name, status), n in sorted(counts.items())]
    with open(COUNTS, "w", encoding="utf-8") as file:
        json.dump(rows, file)
