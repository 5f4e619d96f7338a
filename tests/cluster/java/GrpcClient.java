import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.apis.*;
import org.apache.rocketmq.client.apis.consumer.*;
import org.apache.rocketmq.client.apis.message.*;
import org.apache.rocketmq.client.apis.producer.*;

/**
 * RocketMQ's Java gRPC client: its arguments are a proxy, what bodies begin with that are counted, and what to do, one
 * after the other; it prints what it saw.
 *
 * receive GROUP TOPIC COUNT: as a simple consumer, until so many different ones came and then nothing more does. push
 * GROUP TOPIC COUNT: as a push consumer, until so many different ones came. send TOPIC COUNT PREFIX.
 */
public class GrpcClient {
  static final Duration INVISIBLE = Duration.ofSeconds(30), WAIT = Duration.ofSeconds(3);
  static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(150);
  static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
  static ClientConfiguration configuration;
  static String prefix;

  static String text(MessageView found) {
    ByteBuffer body = found.getBody();
    byte[] bytes = new byte[body.remaining()];
    body.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  static String base64(String text) {
    return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
  }

  static synchronized void say(Object... words) {
    StringJoiner line = new StringJoiner("\t");
    for (Object word : words) line.add(String.valueOf(word));
    System.out.println(line);
  }

  static void tell(String what, MessageView found) {
    StringBuilder properties = new StringBuilder();
    new TreeMap<>(found.getProperties())
        .forEach((name, value) -> properties.append(name).append('\1').append(value).append('\2'));
    say(what, found.getTopic(), found.getMessageId(), found.getTag().orElse(""), base64(String.join(" ", found.getKeys())),
        found.getBornTimestamp(), found.getBornHost(), found.getDeliveryAttempt(), base64(text(found)),
        base64(properties.toString()));
  }

  static Map<String, FilterExpression> all(String topic) {
    return Map.of(topic, new FilterExpression("*", FilterExpressionType.TAG));
  }

  static void receive(String group, String topic, int count) throws Exception {
    Set<String> bodies = new HashSet<>();
    long deadline = System.nanoTime() + PATIENCE_NS;
    try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
        .setConsumerGroup(group).setAwaitDuration(WAIT).setSubscriptionExpressions(all(topic)).build()) {
      boolean isEmpty = false;
      while (bodies.size() < count || !isEmpty) {
        if (System.nanoTime() > deadline) {
          say("missing", group, count - bodies.size());
          return;
        }
        List<MessageView> found;
        try {
          found = consumer.receive(32, INVISIBLE);
        } catch (ClientException e) { // the proxy's settings of this client may not be there yet
          System.err.println(e);
          continue;
        }
        isEmpty = found.isEmpty();
        for (MessageView each : found) {
          tell(group, each);
          if (text(each).startsWith(prefix)) bodies.add(text(each));
          consumer.ack(each);
        }
      }
    }
  }

  static void push(String group, String topic, int count) throws Exception {
    Set<String> bodies = ConcurrentHashMap.newKeySet();
    CountDownLatch all = new CountDownLatch(count);
    try (PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
        .setConsumerGroup(group).setSubscriptionExpressions(all(topic)).setMessageListener(found -> {
          tell(group, found);
          if (text(found).startsWith(prefix) && bodies.add(text(found))) all.countDown();
          return ConsumeResult.SUCCESS;
        }).build()) {
      if (!all.await(PATIENCE_NS, TimeUnit.NANOSECONDS)) say("missing", group, all.getCount());
    } // which waits until everything that was consumed is acknowledged
  }

  static void send(String topic, int count, String start) throws Exception {
    try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build()) {
      for (int i = 0; i < count; i++) {
        String body = start + " " + i;
        SendReceipt sent = producer.send(PROVIDER.newMessageBuilder().setTopic(topic).setTag("sent").setKeys(body.replace(' ', '-'))
            .setBody(body.getBytes(StandardCharsets.UTF_8)).build());
        say("sent", sent.getMessageId(), body);
      }
    }
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
    configuration = ClientConfiguration.newBuilder().setEndpoints(words[0]).enableSsl(false)
        .setRequestTimeout(Duration.ofSeconds(30)).build();
    prefix = words[1];
    int at = 2;
    while (at < words.length) {
      switch (words[at]) {
        case "receive": receive(words[at + 1], words[at + 2], Integer.parseInt(words[at + 3])); at += 4; break;
        case "push": push(words[at + 1], words[at + 2], Integer.parseInt(words[at + 3])); at += 4; break;
        case "send": send(words[at + 1], Integer.parseInt(words[at + 2]), words[at + 3]); at += 4; break;
        default: throw new IllegalArgumentException(words[at]);
      }
    }
  }
}
