import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Push consumers that pop: two members of a group, messages that fail, a member that is told to pull. */
public class Popping {
  static final long PATIENCE_S = 90;
  static final int COUNT = 60;

  static DefaultMQPushConsumer consumer(String group, String name) throws Exception {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setInstanceName(name);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.setClientRebalance(false);
    consumer.setPopInvisibleTime(20_000);
    consumer.subscribe("orders", "*");
    return consumer;
  }

  public static void main(String[] args) throws Exception {
    String server = args[0];
    System.setProperty("rocketmq.namesrv.addr", server);
    System.setErr(System.out);
    Thread.setDefaultUncaughtExceptionHandler((thread, e) -> { e.printStackTrace(); System.exit(1); });
    for (String command : List.of("updateTopic -b " + args[1] + " -t orders -r 4 -w 4", "updateSubGroup -b " + args[1] + " -g poppers",
        "updateSubGroup -b " + args[1] + " -g pullers",
        "setConsumeMode -b " + args[1] + " -t orders -g poppers -m POP -q 0")) {
      MQAdminStartup.main0(command.split(" "), null);
    }
    System.out.println();
    DefaultMQProducer producer = new DefaultMQProducer("producers");
    producer.setSendMsgTimeout((int) TimeUnit.SECONDS.toMillis(PATIENCE_S));
    producer.start();
    for (int i = 0; i < COUNT; i++) producer.send(new Message("orders", ("order " + i).getBytes(StandardCharsets.UTF_8)));

    Set<String> bodies = ConcurrentHashMap.newKeySet(), failed = ConcurrentHashMap.newKeySet();
    Set<String> handles = ConcurrentHashMap.newKeySet();
    CountDownLatch all = new CountDownLatch(COUNT), again = new CountDownLatch(1);
    AtomicInteger attempts = new AtomicInteger();
    List<DefaultMQPushConsumer> members = new ArrayList<>();
    for (String name : List.of("first", "second")) {
      DefaultMQPushConsumer member = consumer("poppers", name);
      member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
        for (MessageExt each : messages) {
          String body = new String(each.getBody(), StandardCharsets.UTF_8);
          if (each.getProperty("POP_CK") != null) handles.add(body);
          if (body.equals("order 7") && failed.add(body)) return ConsumeConcurrentlyStatus.RECONSUME_LATER;
          if (body.equals("order 7")) { attempts.set(each.getReconsumeTimes()); again.countDown(); }
          if (bodies.add(body)) all.countDown();
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
      });
      member.start();
      members.add(member);
    }
    if (!all.await(PATIENCE_S, TimeUnit.SECONDS) || !again.await(PATIENCE_S, TimeUnit.SECONDS)) {
      throw new IllegalStateException("missing: " + (COUNT - bodies.size()));
    }
    System.out.println("popped " + bodies.size() + ", with handles " + handles.size() + ", failed once " + attempts);

    CountDownLatch pulled = new CountDownLatch(COUNT);
    DefaultMQPushConsumer puller = consumer("pullers", "puller");
    puller.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
      for (int i = 0; i < messages.size(); i++) pulled.countDown();
      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    });
    puller.start();
    if (!pulled.await(PATIENCE_S, TimeUnit.SECONDS)) throw new IllegalStateException("not pulled");
    System.out.println("pulled by assignment");
    puller.shutdown();
    for (DefaultMQPushConsumer each : members) each.shutdown();
    DefaultLitePullConsumer other = new DefaultLitePullConsumer("poppers");
    other.start();
    try {
      DefaultMQPullConsumer pull = new DefaultMQPullConsumer("poppers");
      pull.setInstanceName("pull");
      pull.start();
      pull.pull(new MessageQueue("orders", "store", 0), "*", 0, 1);
    } catch (Exception e) {
      System.out.println("refused " + e.getMessage().replaceAll("(?s) BROKER.*", ""));
    }
    System.out.println("done");
    System.exit(0);
  }
}
