import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

/** RocketMQ's own remoting client, in what it can do; each step prints one line. */
public class Clients {
  static final long PATIENCE_S = 60;
  static String server;

  static String text(Message m) { return new String(m.getBody(), StandardCharsets.UTF_8); }
  static Message message(String topic, String tag, String key, String body) {
    return new Message(topic, tag, key, body.getBytes(StandardCharsets.UTF_8));
  }
  static void await(CountDownLatch latch, String what) throws Exception {
    if (!latch.await(PATIENCE_S, TimeUnit.SECONDS)) throw new IllegalStateException("no end of " + what);
  }
  static DefaultMQPushConsumer consumer(String group, String instance) {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(server);
    consumer.setInstanceName(instance);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    return consumer;
  }

  public static void main(String[] args) throws Exception {
    server = args[0];
    Thread.setDefaultUncaughtExceptionHandler((thread, e) -> { e.printStackTrace(); System.exit(1); });
    DefaultMQProducer producer = new DefaultMQProducer("producers");
    producer.setNamesrvAddr(server);
    producer.setInstanceName("producer");
    producer.setSendMsgTimeout((int) TimeUnit.SECONDS.toMillis(PATIENCE_S));
    producer.start();
    for (String step : List.of(args).subList(1, args.length)) {
      switch (step) {
        case "sends": sends(producer); break;
        case "pushes": pushes(); break;
        case "filters": filters(); break;
        case "retries": retries(producer); break;
        case "orders": orders(producer); break;
        case "pulls": pulls(producer); break;
        case "transactions": transacts(); break;
        case "requests": requests(producer); break;
        case "broadcasts": broadcasts(); break;
        default: throw new IllegalArgumentException(step);
      }
    }
    producer.shutdown();
    System.out.println("done");
    System.exit(0);
  }

  static void sends(DefaultMQProducer producer) throws Exception {
    Message first = message("orders", "a", "key-1", "sync");
    first.putUserProperty("price", "7");
    SendResult sent = producer.send(first);
    CountDownLatch sentAsync = new CountDownLatch(1);
    producer.send(message("orders", "b", "key-2", "async"), new SendCallback() {
      public void onSuccess(SendResult result) { sentAsync.countDown(); }
      public void onException(Throwable e) { e.printStackTrace(); }
    });
    await(sentAsync, "an asynchronous send");
    SendResult batch = producer.send(List.of(
        message("orders", "a", "key-3", "batch 0"), message("orders", "b", "key-4", "batch 1"),
        message("orders", "a", "key-5", "batch 2")));
    producer.sendOneway(message("orders", "a", "key-6", "one way"));
    System.out.println("sent " + sent.getSendStatus() + " " + batch.getSendStatus() + " "
        + batch.getMsgId().split(",").length + " " + batch.getOffsetMsgId().split(",").length);
    byte[] large = new byte[100_000];
    System.out.println("large " + producer.send(new Message("orders", "big", large)).getSendStatus());
    System.out.println("by id " + text(producer.viewMessage("orders", sent.getOffsetMsgId()))
        + ", by key " + text(byKey(producer, "key-4")));
  }

  /** A broker knows a key some moments after it has the message. */
  static Message byKey(DefaultMQProducer producer, String key) throws Exception {
    for (long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S); ; Thread.sleep(50)) {
      try {
        return producer.queryMessage("orders", key, 8, 0, System.currentTimeMillis() + 60_000).getMessageList().get(0);
      } catch (MQClientException e) {
        if (System.nanoTime() > until) throw e;
      }
    }
  }

  static Set<String> consumed(String group, MessageSelector selector, int count) throws Exception {
    Set<String> bodies = new ConcurrentSkipListSet<>();
    CountDownLatch all = new CountDownLatch(count);
    DefaultMQPushConsumer consumer = consumer(group, group);
    consumer.subscribe("orders", selector);
    consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
      for (MessageExt each : messages) {
        if (bodies.add(each.getBody().length > 1000 ? "large " + each.getBody().length : text(each))) all.countDown();
      }
      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    });
    consumer.start();
    await(all, group);
    consumer.shutdown();
    return bodies;
  }

  static void pushes() throws Exception {
    System.out.println("push " + consumed("push-all", MessageSelector.byTag("*"), 7));
  }

  static void filters() throws Exception {
    System.out.println("by tag " + consumed("push-tag", MessageSelector.byTag("b || big"), 3));
    System.out.println("by sql " + consumed("push-sql", MessageSelector.bySql("price > 5"), 1));
  }

  static void retries(DefaultMQProducer producer) throws Exception {
    List<String> attempts = new CopyOnWriteArrayList<>();
    CountDownLatch all = new CountDownLatch(3);
    DefaultMQPushConsumer consumer = consumer("failing", "failing");
    consumer.subscribe("failures", "*");
    consumer.setMaxReconsumeTimes(2);
    consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
      for (MessageExt each : messages) {
        attempts.add(each.getTopic() + " " + each.getReconsumeTimes());
        all.countDown();
      }
      context.setDelayLevelWhenNextConsume(1);
      return ConsumeConcurrentlyStatus.RECONSUME_LATER;
    });
    Message delayed = message("failures", "", "", "fails");
    delayed.setDelayTimeLevel(1);
    producer.send(delayed);
    consumer.start();
    await(all, "retries");
    DefaultLitePullConsumer dead = new DefaultLitePullConsumer("undertaker");
    dead.setNamesrvAddr(server);
    dead.setInstanceName("undertaker");
    dead.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    dead.start();
    List<MessageExt> found = new ArrayList<>();
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
    while (found.isEmpty() && System.nanoTime() < until) {
      try {
        Collection<MessageQueue> queues = dead.fetchMessageQueues("%DLQ%failing");
        dead.assign(queues);
        found.addAll(dead.poll(1000));
      } catch (Exception e) { Thread.sleep(200); }
    }
    System.out.println("attempts " + attempts + ", dead " + found.stream().map(Clients::text).collect(Collectors.toList()));
    consumer.shutdown();
    dead.shutdown();
  }

  static void orders(DefaultMQProducer producer) throws Exception {
    int count = 80;
    for (int i = 0; i < count; i++) {
      int number = i;
      producer.send(message("ordered", "", "", i % 4 + ":" + i / 4), (queues, m, arg) -> queues.get(number % 4 % queues.size()), null);
    }
    Map<String, List<Integer>> seen = new ConcurrentHashMap<>();
    CountDownLatch all = new CountDownLatch(count);
    Set<String> members = ConcurrentHashMap.newKeySet();
    List<DefaultMQPushConsumer> consumers = new ArrayList<>();
    for (String name : List.of("first", "second")) {
      DefaultMQPushConsumer consumer = consumer("in-order", name);
      consumer.subscribe("ordered", "*");
      consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
        for (MessageExt each : messages) {
          String[] parts = text(each).split(":");
          members.add(name);
          seen.computeIfAbsent(parts[0], k -> new CopyOnWriteArrayList<>()).add(Integer.parseInt(parts[1]));
          all.countDown();
        }
        return ConsumeOrderlyStatus.SUCCESS;
      });
      consumers.add(consumer);
    }
    for (DefaultMQPushConsumer consumer : consumers) consumer.start();
    await(all, "messages in order");
    boolean ordered = seen.values().stream().allMatch(list -> list.stream().distinct().collect(Collectors.toList())
        .equals(IntStream.range(0, 20).boxed().collect(Collectors.toList())));
    System.out.println("in order " + ordered + " of " + seen.size() + " keys");
    for (DefaultMQPushConsumer consumer : consumers) consumer.shutdown();
  }

  @SuppressWarnings("deprecation")
  static void pulls(DefaultMQProducer producer) throws Exception {
    DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("pulling");
    consumer.setNamesrvAddr(server);
    consumer.setInstanceName("pulling");
    consumer.start();
    long count = 0;
    for (MessageQueue queue : consumer.fetchSubscribeMessageQueues("ordered")) {
      long offset = consumer.minOffset(queue);
      while (offset < consumer.maxOffset(queue)) {
        PullResult pulled = consumer.pull(queue, "*", offset, 8);
        count += pulled.getMsgFoundList().size();
        offset = pulled.getNextBeginOffset();
      }
      consumer.updateConsumeOffset(queue, offset);
      if (consumer.searchOffset(queue, 0) != 0) throw new IllegalStateException("searchOffset");
    }
    System.out.println("pulled " + count);
    consumer.shutdown();
  }

  static void transacts() throws Exception {
    List<String> asked = new CopyOnWriteArrayList<>();
    TransactionMQProducer producer = new TransactionMQProducer("transacting");
    producer.setNamesrvAddr(server);
    producer.setInstanceName("transacting");
    producer.setSendMsgTimeout((int) TimeUnit.SECONDS.toMillis(PATIENCE_S));
    producer.setTransactionListener(new TransactionListener() {
      public LocalTransactionState executeLocalTransaction(Message m, Object arg) { return (LocalTransactionState) arg; }
      public LocalTransactionState checkLocalTransaction(MessageExt m) {
        asked.add(text(m));
        return LocalTransactionState.COMMIT_MESSAGE;
      }
    });
    producer.start();
    producer.sendMessageInTransaction(message("paid", "", "", "committed"), LocalTransactionState.COMMIT_MESSAGE);
    producer.sendMessageInTransaction(message("paid", "", "", "rolled back"), LocalTransactionState.ROLLBACK_MESSAGE);
    producer.sendMessageInTransaction(message("paid", "", "", "left"), LocalTransactionState.UNKNOW);
    Set<String> seen = new ConcurrentSkipListSet<>();
    CountDownLatch all = new CountDownLatch(2);
    DefaultMQPushConsumer consumer = consumer("cashiers", "cashiers");
    consumer.subscribe("paid", "*");
    consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
      for (MessageExt each : messages) if (seen.add(text(each))) all.countDown();
      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    });
    consumer.start();
    await(all, "transactions");
    System.out.println("committed " + seen + ", asked " + new TreeSet<>(asked));
    consumer.shutdown();
    producer.shutdown();
  }

  static void requests(DefaultMQProducer producer) throws Exception {
    DefaultMQProducer replying = new DefaultMQProducer("replying");
    replying.setNamesrvAddr(server);
    replying.setInstanceName("replying");
    replying.start();
    DefaultMQPushConsumer consumer = consumer("answering", "answering");
    consumer.subscribe("questions", "*");
    consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
      for (MessageExt each : messages) {
        if (each.getProperty("REPLY_TO_CLIENT") == null) continue;
        try {
          byte[] answer = ("answer to " + text(each)).getBytes(StandardCharsets.UTF_8);
          replying.send(org.apache.rocketmq.client.utils.MessageUtil.createReplyMessage(each, answer), 10_000);
        } catch (Exception e) { e.printStackTrace(); }
      }
      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    });
    producer.send(message("questions", "", "", "first"));
    consumer.start();
    CompletableFuture<Message> reply = new CompletableFuture<>();
    // The client 5.3.3 takes a request that was sent for answered: by nothing here, at once with its own error without
    // a callback. The answer comes all the same.
    producer.request(message("questions", "", "", "why"), new RequestCallback() {
      public void onSuccess(Message answer) { if (answer != null) reply.complete(answer); }
      public void onException(Throwable e) { reply.completeExceptionally(e); }
    }, PATIENCE_S * 1000);
    System.out.println("reply " + text(reply.get(PATIENCE_S, TimeUnit.SECONDS)));
    consumer.shutdown();
    replying.shutdown();
  }

  /** The enumeration is in another package in 4.x. */
  @SuppressWarnings({"unchecked", "rawtypes"})
  static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
    for (java.lang.reflect.Method each : DefaultMQPushConsumer.class.getMethods()) {
      if (each.getName().equals("setMessageModel")) {
        each.invoke(consumer, Enum.valueOf((Class) each.getParameterTypes()[0], "BROADCASTING"));
      }
    }
  }

  static void broadcasts() throws Exception {
    CountDownLatch all = new CountDownLatch(14);
    List<DefaultMQPushConsumer> consumers = new ArrayList<>();
    for (String name : List.of("left", "right")) {
      DefaultMQPushConsumer consumer = consumer("broadcast", name);
      broadcast(consumer);
      consumer.subscribe("orders", "*");
      consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
        for (int i = 0; i < messages.size(); i++) all.countDown();
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
      });
      consumer.start();
      consumers.add(consumer);
    }
    await(all, "broadcast");
    System.out.println("broadcast");
    for (DefaultMQPushConsumer consumer : consumers) consumer.shutdown();
  }
}
