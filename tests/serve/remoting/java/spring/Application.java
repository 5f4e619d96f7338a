import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.spring.annotation.*;
import org.apache.rocketmq.spring.core.*;
import org.springframework.boot.Banner;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.*;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * A small application of rocketmq-spring-boot-starter: it sends, and its listeners consume. It asks for no replies: the
 * starter's client (5.3.2) takes a request as answered when it was sent, with every server.
 */
@Configuration
@EnableAutoConfiguration
public class Application {
  static final long PATIENCE_S = 120;
  static final BlockingQueue<String> consumed = new LinkedBlockingQueue<>(), ordered = new LinkedBlockingQueue<>();
  static final BlockingQueue<String> ended = new LinkedBlockingQueue<>(), tried = new LinkedBlockingQueue<>();

  public static class Order {
    public int number;
    public String text;
    public Order() {}
    Order(int number, String text) { this.number = number; this.text = text; }
  }

  @RocketMQMessageListener(topic = "orders", consumerGroup = "billing", selectorExpression = "paid")
  static class Listener implements RocketMQListener<Order> {
    public void onMessage(Order order) { consumed.add(order.number + " " + order.text); }
  }

  @RocketMQMessageListener(topic = "steps", consumerGroup = "walkers", consumeMode = ConsumeMode.ORDERLY)
  static class OrderedListener implements RocketMQListener<String> {
    public void onMessage(String step) { ordered.add(step); }
  }

  @RocketMQMessageListener(topic = "failing", consumerGroup = "patient", delayLevelWhenNextConsume = 1)
  static class FailingListener implements RocketMQListener<String> {
    final AtomicInteger attempts = new AtomicInteger();

    public void onMessage(String text) {
      tried.add(text);
      if (attempts.incrementAndGet() == 1) throw new IllegalStateException("the first time");
    }
  }

  @RocketMQMessageListener(topic = "payments", consumerGroup = "ledger")
  static class Ledger implements RocketMQListener<String> {
    public void onMessage(String text) { ended.add(text); }
  }

  @RocketMQTransactionListener // a component, which Spring finds within the class of the configuration
  static class Transactions implements RocketMQLocalTransactionListener {
    public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object how) {
      return "commit".equals(how) ? RocketMQLocalTransactionState.COMMIT : RocketMQLocalTransactionState.ROLLBACK;
    }
    public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
      return RocketMQLocalTransactionState.UNKNOWN;
    }
  }

  @Bean Listener listener() { return new Listener(); }
  @Bean OrderedListener orderedListener() { return new OrderedListener(); }
  @Bean FailingListener failingListener() { return new FailingListener(); }
  @Bean Ledger ledger() { return new Ledger(); }

  static String next(BlockingQueue<String> queue) throws Exception {
    String found = queue.poll(PATIENCE_S, TimeUnit.SECONDS);
    if (found == null) throw new IllegalStateException("nothing came");
    return found;
  }

  public static void main(String[] args) throws Exception {
    try (ConfigurableApplicationContext context = new SpringApplicationBuilder(Application.class)
        .web(WebApplicationType.NONE).bannerMode(Banner.Mode.OFF).logStartupInfo(false)
        .properties("logging.level.root=warn", "rocketmq.name-server=" + args[0], "rocketmq.producer.group=producers",
            "rocketmq.producer.send-message-timeout=60000").run()) {
      RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
      SendResult sent = template.syncSend("orders:paid", new Order(1, "ordered"));
      template.convertAndSend("orders:unpaid", new Order(2, "refused"));
      template.syncSend("orders:paid", new Order(3, "späť"));
      System.out.println("sent " + sent.getSendStatus());
      java.util.TreeSet<String> found = new java.util.TreeSet<>(java.util.List.of(next(consumed), next(consumed)));
      System.out.println("consumed " + found);
      for (int i = 0; i < 10; i++) template.syncSendOrderly("steps", "step " + i, "one");
      StringBuilder steps = new StringBuilder();
      for (int i = 0; i < 10; i++) steps.append(next(ordered).substring(5));
      System.out.println("in order " + steps);
      template.syncSend("failing", "fails once");
      System.out.println("tried " + next(tried) + ", " + next(tried));
      for (String how : new String[] {"rollback", "commit"}) {
        template.sendMessageInTransaction("payments", MessageBuilder.withPayload(how).build(), how);
      }
      System.out.println("transaction " + next(ended) + ", " + ended.size() + " more");
    }
    System.out.println("done");
    System.exit(0);
  }
}
