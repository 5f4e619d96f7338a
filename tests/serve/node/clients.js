/**
 * RocketMQ's Node.js clients at a server: what tests/serve/matrix/scenarios.py describes.
 * Arguments: ENDPOINTS tls|plain ACCESS_KEY|- SECRET_KEY|- SCENARIO...
 */
'use strict';

const readline = require('node:readline');
const {
  ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const PATIENCE_MS = 60_000;
const INVISIBLE_MS = 30_000;

const [, , endpoints, kind, accessKey, accessSecret, ...names] = process.argv;
const options = {
  endpoints,
  namespace: '',
  sslEnabled: kind === 'tls',
  sessionCredentials: accessKey === '-' ? undefined : { accessKey, accessSecret },
  requestTimeout: 30_000,
  logger: { debug() {}, info() {}, warn: console.error, error: console.error },
};
const orders = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

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
      const alarm = setTimeout(() => reject(new Error(`nothing came in ${PATIENCE_MS} ms`)), PATIENCE_MS);
      this.#waiting.push(one => {
        clearTimeout(alarm);
        resolve(one);
      });
    });
  }
}

function say(...words) {
  console.log(words.join('\t').replaceAll('\n', ' '));
}

/** Ask the other side for something, and wait until it is done. */
async function ask(...words) {
  say(...words);
  await orders.next();
}

const open = [];

async function started(client) {
  open.push(client);
  await client.startup();
  return client;
}

function producer(topic, more = {}) {
  return started(new Producer({ ...options, topics: [topic], ...more }));
}

function simple(group, topic, filter = FilterExpression.SUB_ALL) {
  return started(new SimpleConsumer({
    ...options, consumerGroup: group, subscriptions: new Map([[topic, filter]]), awaitDuration: 5_000,
  }));
}

/** Ends with the process: its shutdown waits for long polls, half a minute. */
async function push(group, topic, consume) {
  const made = new PushConsumer({
    ...options, consumerGroup: group, subscriptions: new Map([[topic, FilterExpression.SUB_ALL]]),
    messageListener: { consume },
  });
  await made.startup();
}

/** So many messages, acknowledged, in the order in which they came. */
async function receive(consumer, count) {
  const found = [];
  const ends = Date.now() + PATIENCE_MS;
  while (found.length < count) {
    if (Date.now() > ends) throw new Error(`only ${bodies(found)} came in ${PATIENCE_MS} ms`);
    for (const view of await consumer.receive(32, INVISIBLE_MS)) {
      await consumer.ack(view);
      found.push(view);
    }
  }
  return found;
}

function bodies(views) {
  return views.map(view => view.body.toString()).sort().join(' ');
}

/** For each message group the numbers in the order in which they came, each at its first time. */
function inGroups(views) {
  const found = new Map();
  for (const view of views) {
    const [group, number] = view.body.toString().split(' ');
    if (!found.has(group)) found.set(group, new Set());
    found.get(group).add(number);
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([group, numbers]) => `${group}: ${[...numbers].join(' ')}`).join(', ');
}

/** A client waits a while before it dials a server again that was away. */
async function persistently(call) {
  const ends = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (Date.now() > ends) throw error;
      await new Promise(resolve => setTimeout(resolve, 200));
    }
  }
}

async function sendSteps(sender, begin, end) {
  for (let number = begin; number < end; number++) {
    for (const messageGroup of ['order-1', 'order-2']) {
      const body = Buffer.from(`${messageGroup} ${number}`);
      await persistently(() => sender.send({ topic: 'steady', messageGroup, body }));
    }
  }
}

async function normal() {
  const topic = 'orders';
  const sender = await producer(topic);
  const consumer = await simple('billing', topic);
  const sent = await sender.send({
    topic, tag: 'new', keys: ['order-7'], properties: new Map([['region', 'north']]), body: Buffer.from('plain'),
  });
  const [view] = await receive(consumer, 1);
  const properties = [...view.properties].map(([name, value]) => `${name}=${value}`).join(', ');
  return `${view.body} ${view.tag} [${view.keys.join()}] {${properties}} attempt ${view.deliveryAttempt} `
    + (view.messageId === sent.messageId && !view.corrupted ? 'same id' : 'other id');
}

async function filtered(topic, group, filter) {
  const sender = await producer(topic);
  const consumer = await simple(group, topic, filter);
  for (const [at, tag] of ['a', 'b', 'c'].entries()) {
    await sender.send({ topic, tag, properties: new Map([['size', `${at + 1}`]]), body: Buffer.from(tag) });
  }
  return bodies(await receive(consumer, 2));
}

const scenarios = {
  normal,
  accepted: normal,

  async refused() {
    try {
      const sender = await producer('orders');
      await sender.send({ topic: 'orders', body: Buffer.from('never') });
    } catch (error) {
      return `refused: ${error.message}`;
    }
    return 'accepted';
  },

  async fifo() {
    const topic = 'steps';
    const sender = await producer(topic);
    const consumer = await simple('sorted', topic);
    for (let number = 0; number < 5; number++) {
      for (const messageGroup of ['order-1', 'order-2']) {
        await sender.send({ topic, messageGroup, body: Buffer.from(`${messageGroup} ${number}`) });
      }
    }
    return inGroups(await receive(consumer, 10));
  },

  async delay() {
    const topic = 'later';
    const sender = await producer(topic);
    const consumer = await simple('late', topic);
    const due = Date.now() + 2_000;
    await sender.send({ topic, deliveryTimestamp: new Date(due), body: Buffer.from('later') });
    const [view] = await receive(consumer, 1);
    return `${view.body} ${Date.now() > due - 1_000 ? 'in time' : 'early'}`;
  },

  async recall() {
    const topic = 'later';
    const sender = await producer(topic);
    const never = await sender.send({ topic, delay: 3_600_000, body: Buffer.from('never') });
    const recalled = await sender.recallMessage(topic, never.recallHandle);
    return recalled.messageId === never.messageId ? 'recalled' : 'recalled another message';
  },

  async renew() {
    const topic = 'work';
    const sender = await producer(topic);
    const consumer = await simple('workers', topic);
    await sender.send({ topic, body: Buffer.from('work') });
    const attempts = [];
    const ends = Date.now() + PATIENCE_MS;
    while (attempts.length < 2 && Date.now() < ends) {
      for (const view of await consumer.receive(1, INVISIBLE_MS)) {
        attempts.push(view.deliveryAttempt);
        if (attempts.length === 1) await consumer.changeInvisibleDuration(view, 1_000);
        else await consumer.ack(view);
      }
    }
    return `attempts [${attempts.join(', ')}]`;
  },

  async push() {
    const topic = 'jobs';
    const consumed = new Arrivals();
    const sender = await producer(topic);
    await push('jobbers', topic, view => {
      consumed.add(view.body.toString());
      return ConsumeResult.SUCCESS;
    });
    for (let number = 0; number < 10; number++) await sender.send({ topic, body: Buffer.from(`${number}`) });
    const found = new Set();
    for (let number = 0; number < 10; number++) found.add(await consumed.next());
    return `${found.size} consumed`;
  },

  async order() {
    const topic = 'line';
    const consumed = new Arrivals();
    const sender = await producer(topic);
    for (const body of ['a', 'fails', 'b', 'c']) {
      await sender.send({ topic, messageGroup: 'order-7', body: Buffer.from(body) });
    }
    await push('orderly', topic, view => {
      consumed.add(view.body.toString());
      return view.body.toString() === 'fails' ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    });
    const seen = [];
    while (!seen.includes('c')) seen.push(await consumed.next());
    return seen.join(' ');
  },

  async transaction() {
    const topic = 'payments';
    const asked = new Arrivals();
    const checker = {
      async check(view) {
        asked.add(view.body.toString());
        return TransactionResolution.COMMIT;
      },
    };
    const sender = await producer(topic, { checker });
    const consumer = await simple('ledger', topic);
    const committed = sender.beginTransaction();
    await sender.send({ topic, body: Buffer.from('committed') }, committed);
    await committed.commit();
    const rolledBack = sender.beginTransaction();
    await sender.send({ topic, body: Buffer.from('rolled back') }, rolledBack);
    await rolledBack.rollback();
    await sender.send({ topic, body: Buffer.from('left') }, sender.beginTransaction());
    const first = await asked.next();
    return `asked ${first}, received ${bodies(await receive(consumer, 2))}`;
  },

  async dead() {
    const topic = 'poison';
    const attempts = new Arrivals();
    const sender = await producer(topic);
    await push('hopeless', topic, view => {
      attempts.add(view.deliveryAttempt);
      return ConsumeResult.FAILURE;
    });
    await sender.send({ topic, body: Buffer.from('poison') });
    const seen = [await attempts.next()];
    while (seen.at(-1) < 2) seen.push(await attempts.next());
    await ask('dead', 'hopeless');
    return `attempts [${seen.join(', ')}]`;
  },

  tag: () => filtered('tagged', 'taggers', new FilterExpression('a || b')),
  sql: () => filtered('sized', 'sizers', new FilterExpression('size > 1', FilterType.SQL)),

  async restart() {
    const sender = await producer('steady');
    const consumer = await simple('steadfast', 'steady');
    await sendSteps(sender, 0, 10);
    const found = await receive(consumer, 8);
    await ask('restart', 'server');
    await sendSteps(sender, 10, 20);
    const missing = new Set();
    for (let number = 0; number < 20; number++) missing.add(`order-1 ${number}`).add(`order-2 ${number}`);
    for (const view of found) missing.delete(view.body.toString());
    const ends = Date.now() + PATIENCE_MS;
    while (missing.size && Date.now() < ends) {
      for (const view of await persistently(() => consumer.receive(32, INVISIBLE_MS))) {
        await persistently(() => consumer.ack(view));
        found.push(view);
        missing.delete(view.body.toString());
      }
    }
    return inGroups(found);
  },
};

async function main() {
  for (const name of names) {
    try {
      say('saw', name, await scenarios[name]());
    } catch (error) {
      say('failed', name, error.stack ?? error);
    }
    for (const client of open.splice(0)) await client.shutdown();
  }
}

main().then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
