import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.store.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

/**
 * RocketMQ's remoting client, of any release: its arguments are a name server, what bodies begin with that are
 * counted, and what to do, one after the other; it prints what it saw.
 *
 * pull TOPIC: every message of every queue. consume GROUP TOPIC concurrently|orderly|broadcasting COUNT: as a push
 * consumer, until so many different ones came; one that broadcasts has the client id 127.0.0.1@GROUP. send TOPIC COUNT
 * PREFIX. answer GROUP TOPIC COUNT BODY: send BODY in a transaction, and commit what the broker asks about besides.
 */
public class Client {
  static final long BEGAN = System.nanoTime();
  static final long PATIENCE_S = 150;
  static final Set<String> OF_CLIENT = Set.of("MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME");
  static String server, prefix;

  static String base64(byte[] data) { return Base64.getEncoder().encodeToString(data == null ? new byte[0] : data); }

  static String text(MessageExt found) { return new String(found.getBody(), StandardCharsets.UTF_8); }

  static synchronized void say(Object... words) {
    StringJoiner line = new StringJoiner("\t");
    for (Object word : words) line.add(String.valueOf(word));
    System.out.println(line);
  }

  static void tell(String what, MessageExt found) {
    StringBuilder properties = new StringBuilder();
    new TreeMap<>(found.getProperties()).forEach((name, value) -> {
      if (!OF_CLIENT.contains(name)) properties.append(name).append('\1').append(value).append('\2');
    });
    say(what, found.getTopic(), found.getQueueId(), found.getQueueOffset(), found.getCommitLogOffset(),
        found.getBornTimestamp(), found.getStoreTimestamp(), found.getFlag(), found.getReconsumeTimes(),
        found.getBornHostString(), base64(found.getBody()),
        base64(properties.toString().getBytes(StandardCharsets.UTF_8)));
  }

  @SuppressWarnings("deprecation") // the one client that says from where to where
  static void pull(String topic) throws Exception {
    DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("puller");
    consumer.setNamesrvAddr(server);
    consumer.start();
    for (MessageQueue queue : new TreeSet<>(consumer.fetchSubscribeMessageQueues(topic))) {
      long at = consumer.minOffset(queue), end = consumer.maxOffset(queue);
      while (at < end) {
        PullResult found = consumer.pull(queue, "*", at, 32);
        if (found.getMsgFoundList() != null) for (MessageExt each : found.getMsgFoundList()) tell("pulled", each);
        at = found.getNextBeginOffset();
      }
    }
    consumer.shutdown();
  }

  static void consume(String group, String topic, String mode, int count) throws Exception {
    CountDownLatch all = new CountDownLatch(count);
    Set<String> bodies = ConcurrentHashMap.newKeySet();
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(server);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(topic, "*");
    if (mode.equals("broadcasting")) {
      // Releases have this type in different packages, so it is named nowhere.
      for (var model : consumer.getMessageModel().getDeclaringClass().getEnumConstants()) {
        if (model.name().equals("BROADCASTING")) consumer.setMessageModel(model);
      }
      consumer.setClientIP("127.0.0.1");
      consumer.setInstanceName(group);
    }
    if (mode.equals("orderly")) {
      consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
        for (MessageExt each : messages) { tell(group, each); if (text(each).startsWith(prefix) && bodies.add(text(each))) all.countDown(); }
        return ConsumeOrderlyStatus.SUCCESS;
      });
    } else {
      consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
        for (MessageExt each : messages) { tell(group, each); if (text(each).startsWith(prefix) && bodies.add(text(each))) all.countDown(); }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
      });
    }
    consumer.start();
    boolean isThere = all.await(PATIENCE_S, TimeUnit.SECONDS);
    if (!isThere) say("missing", group, all.getCount());
    while (isThere && !isDone(consumer, topic)) Thread.sleep(20);
    consumer.shutdown(); // which writes its offsets
  }

  /** Whether its offsets are at the end: a message is counted before its listener has returned. */
  static boolean isDone(DefaultMQPushConsumer consumer, String topic) throws Exception {
    OffsetStore offsets = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
    for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
      if (offsets.readOffset(queue, ReadOffsetType.READ_FROM_MEMORY) < consumer.maxOffset(queue)) return false;
    }
    return true;
  }

  static void send(String topic, int count, String prefix) throws Exception {
    DefaultMQProducer producer = new DefaultMQProducer("sender");
    producer.setNamesrvAddr(server);
    producer.setSendMsgTimeout(60_000);
    producer.start();
    for (int i = 0; i < count; i++) {
      String body = prefix + " " + i;
      SendResult sent = producer.send(new Message(topic, "sent", body, body.getBytes(StandardCharsets.UTF_8)));
      say("sent", sent.getMessageQueue().getQueueId(), sent.getQueueOffset(), body, sent.getSendStatus());
    }
    producer.shutdown();
  }

  static void answer(String group, String topic, int count, String body) throws Exception {
    Set<String> asked = ConcurrentHashMap.newKeySet();
    CountDownLatch all = new CountDownLatch(count);
    TransactionMQProducer producer = new TransactionMQProducer(group);
    producer.setNamesrvAddr(server);
    producer.setTransactionListener(new TransactionListener() {
      public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return LocalTransactionState.COMMIT_MESSAGE;
      }

      public LocalTransactionState checkLocalTransaction(MessageExt half) {
        if (text(half).equals(body) || !asked.add(text(half))) return LocalTransactionState.COMMIT_MESSAGE;
        tell("asked", half);
        if (text(half).startsWith(prefix)) all.countDown();
        return LocalTransactionState.COMMIT_MESSAGE;
      }
    });
    producer.setHeartbeatBrokerInterval(500);
    producer.start();
    // A broker asks producers that it knows by their heartbeats, which go to the brokers of topics that were sent to.
    producer.sendMessageInTransaction(new Message(topic, body.getBytes(StandardCharsets.UTF_8)), null);
    if (!all.await(PATIENCE_S, TimeUnit.SECONDS)) say("missing", group, all.getCount());
    producer.shutdown();
  }

  public static void main(String[] words) {
    try {
      act(words);
      say("done");
      System.exit(0);
    } catch (Throwable e) { // the clients' threads would keep the process alive
      e.printStackTrace();
      System.exit(1);
    }
  }

  static void act(String[] words) throws Exception {
    server = words[0];
    prefix = words[1];
    int at = 2;
    while (at < words.length) {
      System.err.printf("%5.1f s  %s%n", (System.nanoTime() - BEGAN) / 1e9, words[at] + " " + words[at + 1]);
      switch (words[at]) {
        case "pull": pull(words[at + 1]); at += 2; break;
        case "consume": consume(words[at + 1], words[at + 2], words[at + 3], Integer.parseInt(words[at + 4])); at += 5; break;
        case "send": send(words[at + 1], Integer.parseInt(words[at + 2]), words[at + 3]); at += 4; break;
        case "answer": answer(words[at + 1], words[at + 2], Integer.parseInt(words[at + 3]), words[at + 4]); at += 5; break;
        default: throw new IllegalArgumentException(words[at]);
      }
    }
  }
}
