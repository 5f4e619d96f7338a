import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

/**
 * A member of a group that consumes in order. Says which queues it holds locked whenever they change, and each message
 * that it got; leaves when its input ends.
 */
public class Member {
  static synchronized void say(String line) { System.out.println(line); System.out.flush(); }

  public static void main(String[] args) throws Exception {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("sharing");
    consumer.setNamesrvAddr(args[0]);
    consumer.setInstanceName(args[1]);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe("shared", "*");
    consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
      for (MessageExt each : messages) say("got " + each.getQueueId() + " " + new String(each.getBody(), StandardCharsets.UTF_8));
      return ConsumeOrderlyStatus.SUCCESS;
    });
    consumer.start();
    Thread watching = new Thread(() -> {
      for (TreeSet<Integer> before = null; ; ) {
        TreeSet<Integer> held = new TreeSet<>();
        for (Map.Entry<MessageQueue, ProcessQueue> each :
            consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().entrySet()) {
          if (each.getKey().getTopic().equals("shared") && each.getValue().isLocked()) held.add(each.getKey().getQueueId());
        }
        if (!held.equals(before)) say("holds " + held.toString().replaceAll("[\\[\\],]", ""));
        before = held;
        try { Thread.sleep(50); } catch (InterruptedException e) { return; }
      }
    });
    watching.setDaemon(true);
    watching.start();
    while (System.in.read() >= 0) { }
    consumer.shutdown();
    say("left");
    System.exit(0);
  }
}
