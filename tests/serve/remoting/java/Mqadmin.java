import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** RocketMQ's own mqadmin, with clients that are there: a producer, and two members of a group. */
public class Mqadmin {
  static final long PATIENCE_S = 60;
  static final BlockingQueue<String> consumed = new LinkedBlockingQueue<>();

  static void await(int count, String what) throws Exception {
    for (int i = 0; i < count; i++) {
      if (consumed.poll(PATIENCE_S, TimeUnit.SECONDS) == null) throw new IllegalStateException("no end of " + what);
    }
  }

  static void mqadmin(String... words) {
    System.out.println("== " + words[0]);
    MQAdminStartup.main0(words, null);
  }

  public static void main(String[] args) throws Exception {
    String server = args[0], broker = args[1];
    Thread.setDefaultUncaughtExceptionHandler((thread, e) -> { e.printStackTrace(); System.exit(1); });
    System.setProperty("rocketmq.namesrv.addr", server);
    System.setErr(System.out);
    mqadmin("updateTopic", "-b", broker, "-t", "orders", "-r", "4", "-w", "4");
    mqadmin("updateSubGroup", "-b", broker, "-g", "billing");
    DefaultMQProducer producer = new DefaultMQProducer("producers");
    producer.setInstanceName("producer");
    producer.setSendMsgTimeout((int) TimeUnit.SECONDS.toMillis(PATIENCE_S));
    producer.start();
    SendResult last = null;
    for (int i = 0; i < 8; i++) {
      Message each = new Message("orders", "paid", "key-" + i, ("order " + i).getBytes(StandardCharsets.UTF_8));
      last = producer.send(each, new MessageQueue("orders", "store", i % 4));
    }
    List<DefaultMQPushConsumer> members = new ArrayList<>();
    for (String name : List.of("first", "second")) {
      DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing");
      consumer.setInstanceName(name);
      consumer.setClientIP("127.0.0.1");
      consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
      consumer.subscribe("orders", "*");
      consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
        for (MessageExt each : messages) consumed.add(new String(each.getBody(), StandardCharsets.UTF_8));
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
      });
      consumer.start();
      members.add(consumer);
    }
    await(8, "messages");
    DefaultMQAdminExt admin = new DefaultMQAdminExt(PATIENCE_S * 1000);
    admin.setInstanceName("admin");
    admin.start();
    for (long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S); ; Thread.sleep(100)) {
      for (DefaultMQPushConsumer each : members) each.getDefaultMQPushConsumerImpl().persistConsumerOffset();
      int shared = 0;
      for (DefaultMQPushConsumer each : members) {
        for (MessageQueue queue : each.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
          if (queue.getTopic().equals("orders")) shared++;
        }
      }
      if (shared == 4 && admin.examineConsumeStats("billing", "orders").computeTotalDiff() == 0) break;
      if (System.nanoTime() > until) throw new IllegalStateException("the members do not settle");
    }
    mqadmin("consumerConnection", "-g", "billing");
    mqadmin("producerConnection", "-g", "producers", "-t", "orders");
    mqadmin("producer", "-b", broker);
    System.out.println("== getConsumeStatus"); // mqadmin has no command for it
    new TreeMap<>(admin.getConsumeStatus("orders", "billing", "")).forEach((client, offsets) ->
        new TreeMap<>(offsets).forEach((queue, offset) ->
            System.out.println(client.split("@")[1].split("#")[0] + " " + queue.getQueueId() + " " + offset)));
    System.out.println("one " + admin.getConsumeStatus("orders", "billing", members.get(0).buildMQClientId()).keySet());
    mqadmin("consumerProgress", "-g", "billing");
    mqadmin("consumerStatus", "-g", "billing");
    mqadmin("consumerStatus", "-g", "billing", "-i", members.get(0).buildMQClientId(), "-s");
    for (String command : List.of("topicList", "topicStatus -t orders", "topicRoute -t orders", "clusterList",
        "brokerStatus -b " + broker, "allocateMQ -t orders -i a,b")) {
      mqadmin(command.split(" "));
    }
    mqadmin("statsAll", "-t", "orders");
    mqadmin("queryMsgByUniqueKey", "-t", "orders", "-i", last.getMsgId());
    mqadmin("queryMsgById", "-t", "orders", "-i", last.getOffsetMsgId(), "-g", "billing", "-d", members.get(0).buildMQClientId());
    await(1, "a message that was consumed directly");
    mqadmin("queryMsgByKey", "-t", "orders", "-k", "key-3");
    mqadmin("queryMsgByOffset", "-t", "orders", "-b", "store", "-i", "3", "-o", "1");
    mqadmin("printMsg", "-t", "orders", "-d", "true");
    mqadmin("printMsgByQueue", "-t", "orders", "-a", "store", "-i", "3", "-p", "true", "-d", "true");
    mqadmin("consumeMessage", "-t", "orders", "-b", "store", "-i", "1", "-o", "0", "-c", "2");
    mqadmin("getBrokerConfig", "-b", broker);
    mqadmin("updateBrokerConfig", "-b", broker, "-k", "flushDiskType", "-v", "SYNC_FLUSH");
    mqadmin("updateBrokerConfig", "-b", broker, "-k", "messageIndexEnable", "-v", "true");
    mqadmin("sendMessage", "-t", "orders", "-p", "more", "-k", "k1", "-c", "a", "-b", "store", "-i", "0");
    await(1, "the message that was sent");
    mqadmin("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "0");
    await(9, "messages after a reset");
    mqadmin("skipAccumulatedMessage", "-g", "billing", "-t", "orders");
    for (DefaultMQPushConsumer each : members) each.shutdown();
    producer.shutdown();
    mqadmin("consumerConnection", "-g", "billing");
    mqadmin("producerConnection", "-g", "producers", "-t", "orders");
    mqadmin("consumerStatus", "-g", "billing");
    mqadmin("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "0");
    mqadmin("skipAccumulatedMessage", "-g", "billing", "-t", "orders");
    mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "orders");
    System.out.println("== done");
    System.exit(0);
  }
}
