/**
 * RocketMQ's Node.js clients at a server: ENDPOINTS tls|plain [ACCESS_KEY SECRET_KEY]; with keys, its first part.
 * Prints a line for each thing that was seen, and "done".
 *
 * Each part sends, and waits for what must come, for a minute at most.
 */
'use strict';

const {
  ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const PATIENCE_MS = 60_000;
const INVISIBLE_MS = 30_000;

const [, , endpoints, kind, accessKey, accessSecret] = process.argv;
const options = {
  endpoints,
  namespace: '',
  sslEnabled: kind === 'tls',
  sessionCredentials: accessKey ? { accessKey, accessSecret } : undefined,
  requestTimeout: 30_000,
  logger: { debug() {}, info() {}, warn: console.error, error: console.error },
};

/** What arrives from elsewhere, in its order. */
class Arrivals {
  #all = [];
  #waiting = [];

  add(one) {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(one);
    else this.#all.push(one);
  }

  next() {
    if (this.#all.length) return Promise.resolve(this.#all.shift());
    return new Promise((resolve, reject) => {
      const alarm = setTimeout(() => reject(new Error(`nothing came within ${PATIENCE_MS} ms`)), PATIENCE_MS);
      this.#waiting.push(one => {
        clearTimeout(alarm);
        resolve(one);
      });
    });
  }
}

function say(...words) {
  console.log(words.join(' '));
}

async function started(client) {
  await client.startup();
  return client;
}

/** The messages by their bodies, acknowledged, as soon as there are so many. */
async function receive(consumer, count) {
  const found = new Map();
  const ends = Date.now() + PATIENCE_MS;
  while (found.size < count && Date.now() < ends) {
    for (const view of await consumer.receive(32, INVISIBLE_MS)) {
      found.set(view.body.toString(), view);
      await consumer.ack(view);
    }
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function simpleConsumer(group, topic, filter) {
  return started(new SimpleConsumer({
    ...options, consumerGroup: group, subscriptions: new Map([[topic, filter]]), awaitDuration: 5_000,
  }));
}

function pushConsumer(group, topic, filter, consume) {
  return started(new PushConsumer({
    ...options, consumerGroup: group, subscriptions: new Map([[topic, filter]]), messageListener: { consume },
  }));
}

async function sendAndReceive() {
  const topic = 'orders';
  const producer = await started(new Producer({ ...options, topics: [topic] }));
  const consumer = await simpleConsumer('billing', topic, FilterExpression.SUB_ALL);
  const first = await producer.send({
    topic, tag: 'new', keys: ['order-7'], properties: new Map([['region', 'north']]), body: Buffer.from('plain'),
  });
  await producer.send({ topic, messageGroup: 'order-7', body: Buffer.from('in order') });
  await producer.send({ topic, delay: 1_000, body: Buffer.from('later') });
  const never = await producer.send({ topic, delay: 3_600_000, body: Buffer.from('never') });
  const recalled = await producer.recallMessage(topic, never.recallHandle);
  say('recalled', recalled.messageId === never.messageId);
  const found = await receive(consumer, 3);
  say('received', [...found.keys()].join(', '));
  const plain = found.get('plain');
  say('as sent', plain.messageId === first.messageId && plain.tag === 'new' && plain.keys.join() === 'order-7'
    && plain.properties.size === 1 && plain.properties.get('region') === 'north' && plain.deliveryAttempt === 1
    && !plain.corrupted);
  say('group', found.get('in order').messageGroup);
  await consumer.shutdown();
  await producer.shutdown();
}

async function filterBySql() {
  const topic = 'places';
  const producer = await started(new Producer({ ...options, topics: [topic] }));
  const north = new FilterExpression("region = 'north'", FilterType.SQL);
  const consumer = await simpleConsumer('travellers', topic, north);
  for (const region of ['south', 'north']) {
    await producer.send({ topic, properties: new Map([['region', region]]), body: Buffer.from(region) });
  }
  say('by SQL', [...(await receive(consumer, 1)).keys()].join(', '));
  await consumer.shutdown();
  await producer.shutdown();
}

async function inTransactions() {
  const topic = 'payments';
  const asked = new Arrivals();
  const checker = {
    async check(view) {
      asked.add(view.body.toString());
      return TransactionResolution.COMMIT;
    },
  };
  const producer = await started(new Producer({ ...options, topics: [topic], checker }));
  const consumer = await simpleConsumer('ledger', topic, FilterExpression.SUB_ALL);
  const committed = producer.beginTransaction();
  await producer.send({ topic, body: Buffer.from('committed') }, committed);
  await committed.commit();
  const rolledBack = producer.beginTransaction();
  await producer.send({ topic, body: Buffer.from('rolled back') }, rolledBack);
  await rolledBack.rollback();
  await producer.send({ topic, body: Buffer.from('left') }, producer.beginTransaction());
  say('asked', await asked.next());
  say('committed', [...(await receive(consumer, 2)).keys()].join(', '));
  await consumer.shutdown();
  await producer.shutdown();
}

async function failAndRetry() {
  const topic = 'work';
  const attempts = new Arrivals();
  const producer = await started(new Producer({ ...options, topics: [topic] }));
  await pushConsumer('workers', topic, 'wanted', view => {
    attempts.add(`${view.body}:${view.deliveryAttempt}`);
    return view.deliveryAttempt === 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  });
  await producer.send({ topic, tag: 'other', body: Buffer.from('no') });
  await producer.send({ topic, tag: 'wanted', body: Buffer.from('yes') });
  say('attempts', await attempts.next(), await attempts.next());
  await producer.shutdown();
}

/** The group `orderly` is ordered. This client takes no number of attempts from a list of delays: it gives one. */
async function inOrder() {
  const topic = 'steps';
  const consumed = new Arrivals();
  const producer = await started(new Producer({ ...options, topics: [topic] }));
  for (const body of ['a', 'fails', 'b', 'c']) {
    await producer.send({ topic, messageGroup: 'order-7', body: Buffer.from(body) });
  }
  await pushConsumer('orderly', topic, FilterExpression.SUB_ALL, view => {
    consumed.add(view.body.toString());
    return view.body.toString() === 'fails' ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  });
  const seen = [];
  for (let i = 0; i < 4; i++) seen.push(await consumed.next());
  say('in order', ...seen);
  await producer.shutdown();
}

async function main() {
  await sendAndReceive();
  if (!accessKey) {
    await filterBySql();
    await inTransactions();
    await failAndRetry();
    await inOrder();
  }
  say('done');
}

// Push consumers end with the process: their shutdown waits for long polls, half a minute.
main().then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
