import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * What RocketMQ's remoting client refuses: its arguments are a name server, and what to try. It prints a line for each:
 * what was tried, and "done" or why not.
 *
 * send TOPIC: a message. join GROUP TOPIC: as a push consumer. view TOPIC ID: the message of this offset message id.
 */
public class Refusals {
  interface Attempt { void run() throws Exception; }

  static void attempt(String what, Attempt attempt) {
    String said = "done";
    try {
      attempt.run();
    } catch (Exception e) {
      said = String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
    }
    System.out.println(what + "\t" + said);
  }

  static void join(String server, String group, String topic) throws Exception {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(server);
    consumer.subscribe(topic, "*");
    consumer.registerMessageListener((MessageListenerConcurrently) (found, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
    consumer.start();
    consumer.shutdown();
  }

  public static void main(String[] words) throws Exception {
    String server = words[0];
    DefaultMQProducer producer = new DefaultMQProducer("sender");
    producer.setNamesrvAddr(server);
    producer.setSendMsgTimeout(60_000);
    producer.start();
    int at = 1;
    while (at < words.length) {
      String first = words[at + 1], second = at + 2 < words.length ? words[at + 2] : "";
      switch (words[at]) {
        case "send":
          attempt("send " + first, () -> producer.send(new Message(first, "sent".getBytes())));
          at += 2;
          break;
        case "join":
          attempt("join " + first + " " + second, () -> join(server, first, second));
          at += 3;
          break;
        case "view": // not producer.viewMessage, which takes what it does not find for a unique key
          attempt("view " + second, () -> producer.getDefaultMQProducerImpl().viewMessage(first, second));
          at += 3;
          break;
        default:
          throw new IllegalArgumentException(words[at]);
      }
    }
    producer.shutdown();
    System.exit(0);
  }
}
