import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * RocketMQ's Java clients at a server: ENDPOINTS tls|plain [ACCESS_KEY SECRET_KEY]; with keys, its first part. Prints a
 * line for each thing that was seen, and "done".
 *
 * <p>Each part sends, and waits for what must come, for a minute at most.
 */
public final class Clients {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final long PATIENCE_S = 60;

    private final ClientConfiguration configuration;

    private Clients(String endpoints, boolean tls, String... keys) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(endpoints)
            .enableSsl(tls)
            .setRequestTimeout(Duration.ofSeconds(30));
        if (keys.length > 0) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(keys[0], keys[1]));
        }
        configuration = builder.build();
    }

    public static void main(String[] arguments) throws Exception {
        Clients clients = new Clients(
            arguments[0], arguments[1].equals("tls"), Arrays.copyOfRange(arguments, 2, arguments.length));
        clients.sendAndReceive();
        if (arguments.length == 2) {
            clients.inTransactions();
            clients.failAndRetry();
            clients.inOrder();
        }
        System.out.println("done");
        System.exit(0);
    }

    private void sendAndReceive() throws Exception {
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics("orders").build();
            SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup("billing").setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Map.of("orders", FilterExpression.SUB_ALL)).build()) {
            SendReceipt first = producer.send(PROVIDER.newMessageBuilder().setTopic("orders").setTag("new")
                .setKeys("order-7").addProperty("region", "north").setBody("plain".getBytes()).build());
            producer.send(PROVIDER.newMessageBuilder().setTopic("orders").setMessageGroup("order-7")
                .setBody("in order".getBytes()).build());
            producer.send(PROVIDER.newMessageBuilder().setTopic("orders")
                .setDeliveryTimestamp(System.currentTimeMillis() + 1000).setBody("later".getBytes()).build());
            SendReceipt recalled = producer.send(PROVIDER.newMessageBuilder().setTopic("orders")
                .setDeliveryTimestamp(System.currentTimeMillis() + 3_600_000).setBody("never".getBytes()).build());
            System.out.println("recalled " + producer.recallMessage("orders", recalled.getRecallHandle()).getMessageId()
                .equals(recalled.getMessageId()));
            TreeMap<String, MessageView> found = new TreeMap<>();
            long ends = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (found.size() < 3 && System.nanoTime() < ends) {
                List<MessageView> received = consumer.receive(32, Duration.ofSeconds(30));
                for (MessageView view : received) {
                    found.put(text(view), view);
                    consumer.ack(view);
                }
            }
            System.out.println("received " + found.keySet());
            MessageView plain = found.get("plain");
            System.out.println("as sent " + (plain.getMessageId().equals(first.getMessageId())
                && plain.getTag().get().equals("new") && plain.getKeys().contains("order-7")
                && plain.getProperties().equals(Map.of("region", "north")) && plain.getDeliveryAttempt() == 1));
            System.out.println("group " + found.get("in order").getMessageGroup().get());
        }
    }

    private void inTransactions() throws Exception {
        BlockingQueue<String> asked = new LinkedBlockingQueue<>();
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics("payments").setTransactionChecker(view -> {
                    asked.add(text(view));
                    return TransactionResolution.COMMIT;
                }).build();
            SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup("ledger").setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Map.of("payments", FilterExpression.SUB_ALL)).build()) {
            Transaction committed = producer.beginTransaction();
            producer.send(message("payments", "committed"), committed);
            committed.commit();
            Transaction rolledBack = producer.beginTransaction();
            producer.send(message("payments", "rolled back"), rolledBack);
            rolledBack.rollback();
            producer.send(message("payments", "left"), producer.beginTransaction());
            System.out.println("asked " + asked.poll(PATIENCE_S, TimeUnit.SECONDS));
            TreeMap<String, MessageView> found = new TreeMap<>();
            long ends = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (found.size() < 2 && System.nanoTime() < ends) {
                for (MessageView view : consumer.receive(32, Duration.ofSeconds(30))) {
                    found.put(text(view), view);
                    consumer.ack(view);
                }
            }
            System.out.println("committed " + found.keySet());
        }
    }

    private void failAndRetry() throws Exception {
        BlockingQueue<Integer> attempts = new LinkedBlockingQueue<>();
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics("work").build();
            PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup("workers").setSubscriptionExpressions(Collections.singletonMap("work",
                    new FilterExpression("wanted")))
                .setMessageListener(view -> {
                    attempts.add(view.getDeliveryAttempt());
                    return view.getDeliveryAttempt() == 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                }).build()) {
            producer.send(PROVIDER.newMessageBuilder().setTopic("work").setTag("other").setBody("no".getBytes())
                .build());
            producer.send(PROVIDER.newMessageBuilder().setTopic("work").setTag("wanted").setBody("yes".getBytes())
                .build());
            System.out.println("attempts " + attempts.poll(PATIENCE_S, TimeUnit.SECONDS) + " "
                + attempts.poll(PATIENCE_S, TimeUnit.SECONDS));
        }
    }

    /** The group `orderly` is ordered, and gives a message two attempts. */
    private void inOrder() throws Exception {
        BlockingQueue<String> consumed = new LinkedBlockingQueue<>();
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics("steps").build()) {
            for (String body : List.of("a", "fails", "b", "c")) {
                producer.send(PROVIDER.newMessageBuilder().setTopic("steps").setMessageGroup("order-7")
                    .setBody(body.getBytes()).build());
            }
            try (PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
                    .setConsumerGroup("orderly")
                    .setSubscriptionExpressions(Collections.singletonMap("steps", FilterExpression.SUB_ALL))
                    .setMessageListener(view -> {
                        consumed.add(text(view));
                        return text(view).equals("fails") ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                    }).build()) {
                StringBuilder seen = new StringBuilder("in order");
                for (int i = 0; i < 5; i++) {
                    seen.append(' ').append(consumed.poll(PATIENCE_S, TimeUnit.SECONDS));
                }
                System.out.println(seen);
            }
        }
    }

    private static Message message(String topic, String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8)).build();
    }

    private static String text(MessageView view) {
        ByteBuffer body = view.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
