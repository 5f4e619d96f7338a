import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * RocketMQ's Java clients, of any version from 5.0.0 on, at a server: what tests/serve/matrix/scenarios.py describes.
 * Arguments: ENDPOINTS tls|plain ACCESS_KEY|- SECRET_KEY|- SCENARIO...
 */
public final class Clients {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final long PATIENCE_S = 60;
    private static final Duration INVISIBLE = Duration.ofSeconds(30);
    private static final BufferedReader ORDERS = new BufferedReader(new InputStreamReader(System.in));

    private final ClientConfiguration configuration;
    private final Map<String, Scenario> scenarios = new LinkedHashMap<>();

    private interface Scenario {
        String run() throws Exception;
    }

    /** This version of the client has no such thing. */
    private static final class LacksException extends Exception {
        LacksException(String what) {
            super(what);
        }
    }

    private Clients(ClientConfiguration configuration) {
        this.configuration = configuration;
        scenarios.put("normal", this::normal);
        scenarios.put("accepted", this::normal);
        scenarios.put("refused", this::refused);
        scenarios.put("fifo", this::fifo);
        scenarios.put("delay", this::delay);
        scenarios.put("recall", this::recall);
        scenarios.put("renew", this::renew);
        scenarios.put("push", this::push);
        scenarios.put("order", this::order);
        scenarios.put("transaction", this::transaction);
        scenarios.put("dead", this::dead);
        scenarios.put("tag", () -> filtered("tagged", "taggers", new FilterExpression("a || b")));
        scenarios.put("sql", () -> filtered("sized", "sizers",
            new FilterExpression("size > 1", FilterExpressionType.SQL92)));
        scenarios.put("restart", this::restart);
    }

    public static void main(String[] arguments) throws Exception {
        List<String> names = Arrays.asList(arguments).subList(4, arguments.length);
        Clients clients;
        try {
            clients = new Clients(configured(arguments[0], arguments[1].equals("tls"), arguments[2], arguments[3]));
        } catch (LacksException e) {
            names.forEach(name -> say("lacks", name, e.getMessage()));
            Runtime.getRuntime().halt(0);
            return;
        }
        for (String name : names) {
            try {
                say("saw", name, clients.scenarios.get(name).run());
            } catch (LacksException e) {
                say("lacks", name, e.getMessage());
            } catch (Exception e) {
                say("failed", name, e.toString());
            }
        }
        Runtime.getRuntime().halt(0); // the hooks of 5.0.0 would wait for clients that do not close
    }

    private static ClientConfiguration configured(String endpoints, boolean tls, String key, String secret)
            throws Exception {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(endpoints).setRequestTimeout(Duration.ofSeconds(30));
        if (!key.equals("-")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(key, secret));
        }
        try {
            ClientConfigurationBuilder.class.getMethod("enableSsl", boolean.class).invoke(builder, tls);
        } catch (NoSuchMethodException e) {
            if (!tls) {
                throw new LacksException("plaintext");
            }
        }
        return builder.build();
    }

    private static void say(String... words) {
        System.out.println(String.join("\t", words).replace('\n', ' '));
    }

    private String normal() throws Exception {
        try (Producer producer = producer("orders"); SimpleConsumer consumer = simple("billing", "orders")) {
            SendReceipt receipt = producer.send(message("orders", "plain").setTag("new").setKeys("order-7")
                .addProperty("region", "north").build());
            MessageView view = receive(consumer, 1).get(0);
            return String.join(" ", text(view), view.getTag().get(), view.getKeys().toString(),
                view.getProperties().toString(), "attempt", String.valueOf(view.getDeliveryAttempt()),
                view.getMessageId().equals(receipt.getMessageId()) ? "same id" : "other id");
        }
    }

    private String refused() throws Exception {
        try (Producer producer = producer("orders")) {
            producer.send(message("orders", "never").build());
            return "accepted";
        } catch (ClientException | IllegalStateException e) {
            return "refused: " + said(e);
        }
    }

    private String fifo() throws Exception {
        try (Producer producer = producer("steps"); SimpleConsumer consumer = simple("sorted", "steps")) {
            for (int number = 0; number < 5; number++) {
                for (String group : List.of("order-1", "order-2")) {
                    producer.send(message("steps", group + " " + number).setMessageGroup(group).build());
                }
            }
            return inGroups(receive(consumer, 10));
        }
    }

    private String delay() throws Exception {
        try (Producer producer = producer("later"); SimpleConsumer consumer = simple("late", "later")) {
            long dueMs = System.currentTimeMillis() + 2000;
            producer.send(message("later", "later").setDeliveryTimestamp(dueMs).build());
            MessageView view = receive(consumer, 1).get(0);
            return text(view) + (System.currentTimeMillis() > dueMs - 1000 ? " in time" : " early");
        }
    }

    private String recall() throws Exception {
        try (Producer producer = producer("later")) {
            SendReceipt receipt = producer.send(message("later", "never")
                .setDeliveryTimestamp(System.currentTimeMillis() + 3_600_000).build());
            Object handle = SendReceipt.class.getMethod("getRecallHandle").invoke(receipt);
            Object recalled = Producer.class.getMethod("recallMessage", String.class, String.class)
                .invoke(producer, "later", handle);
            Class<?> type = Class.forName("org.apache.rocketmq.client.apis.producer.RecallReceipt");
            Object id = type.getMethod("getMessageId").invoke(recalled);
            return id.equals(receipt.getMessageId()) ? "recalled" : "recalled another message";
        } catch (NoSuchMethodException e) {
            throw new LacksException("recall");
        }
    }

    private String renew() throws Exception {
        try (Producer producer = producer("work"); SimpleConsumer consumer = simple("workers", "work")) {
            producer.send(message("work", "work").build());
            List<Integer> attempts = new ArrayList<>();
            long ends = ends();
            while (attempts.size() < 2 && System.nanoTime() < ends) {
                for (MessageView view : consumer.receive(1, INVISIBLE)) {
                    attempts.add(view.getDeliveryAttempt());
                    if (attempts.size() == 1) {
                        consumer.changeInvisibleDuration(view, Duration.ofSeconds(1));
                    } else {
                        consumer.ack(view);
                    }
                }
            }
            return "attempts " + attempts;
        }
    }

    private String push() throws Exception {
        BlockingQueue<String> consumed = new LinkedBlockingQueue<>();
        push("jobbers", "jobs", view -> {
            consumed.add(text(view));
            return ConsumeResult.SUCCESS;
        });
        try (Producer producer = producer("jobs")) {
            for (int number = 0; number < 10; number++) {
                producer.send(message("jobs", String.valueOf(number)).build());
            }
            Set<String> found = new TreeSet<>();
            for (int number = 0; number < 10; number++) {
                found.add(next(consumed));
            }
            return found.size() + " consumed";
        }
    }

    private String order() throws Exception {
        BlockingQueue<String> consumed = new LinkedBlockingQueue<>();
        try (Producer producer = producer("line")) {
            for (String body : List.of("a", "fails", "b", "c")) {
                producer.send(message("line", body).setMessageGroup("order-7").build());
            }
            push("orderly", "line", view -> {
                consumed.add(text(view));
                return text(view).equals("fails") ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            });
            List<String> seen = new ArrayList<>();
            while (!seen.contains("c")) {
                seen.add(next(consumed));
            }
            return String.join(" ", seen);
        }
    }

    private String transaction() throws Exception {
        BlockingQueue<String> asked = new LinkedBlockingQueue<>();
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics("payments").setTransactionChecker(view -> {
                    asked.add(text(view));
                    return TransactionResolution.COMMIT;
                }).build();
            SimpleConsumer consumer = simple("ledger", "payments")) {
            Transaction committed = producer.beginTransaction();
            producer.send(message("payments", "committed").build(), committed);
            committed.commit();
            Transaction rolledBack = producer.beginTransaction();
            producer.send(message("payments", "rolled back").build(), rolledBack);
            rolledBack.rollback();
            producer.send(message("payments", "left").build(), producer.beginTransaction());
            String first = next(asked);
            return "asked " + first + ", received " + bodies(receive(consumer, 2));
        }
    }

    private String dead() throws Exception {
        BlockingQueue<Integer> attempts = new LinkedBlockingQueue<>();
        push("hopeless", "poison", view -> {
            attempts.add(view.getDeliveryAttempt());
            return ConsumeResult.FAILURE;
        });
        try (Producer producer = producer("poison")) {
            producer.send(message("poison", "poison").build());
            List<Integer> seen = new ArrayList<>(List.of(next(attempts)));
            while (seen.get(seen.size() - 1) < 2) {
                seen.add(next(attempts));
            }
            say("dead", "hopeless"); // the other side waits for it
            ORDERS.readLine();
            return "attempts " + seen;
        }
    }

    private String filtered(String topic, String group, FilterExpression wanted) throws Exception {
        try (Producer producer = producer(topic);
            SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Map.of(topic, wanted)).build()) {
            for (int number = 1; number <= 3; number++) {
                String tag = "xabc".substring(number, number + 1);
                producer.send(message(topic, tag).setTag(tag).addProperty("size", String.valueOf(number)).build());
            }
            return bodies(receive(consumer, 2));
        }
    }

    /** Its clients end with the process: 5.0.0 does not come back from a close after the server was away. */
    private String restart() throws Exception {
        Producer producer = producer("steady");
        SimpleConsumer consumer = simple("steadfast", "steady");
        List<MessageView> found = new ArrayList<>();
        sendSteps(producer, 0, 10);
        found.addAll(receive(consumer, 8));
        say("restart", "server");
        ORDERS.readLine();
        sendSteps(producer, 10, 20);
        Set<String> missing = new HashSet<>();
        for (int number = 0; number < 20; number++) {
            missing.addAll(List.of("order-1 " + number, "order-2 " + number));
        }
        found.forEach(view -> missing.remove(text(view)));
        long ends = ends();
        while (!missing.isEmpty() && System.nanoTime() < ends) {
            for (MessageView view : persistently(() -> consumer.receive(32, INVISIBLE))) {
                persistently(() -> {
                    consumer.ack(view);
                    return view;
                });
                found.add(view);
                missing.remove(text(view));
            }
        }
        return inGroups(found);
    }

    private static void sendSteps(Producer producer, int begin, int end) throws Exception {
        for (int number = begin; number < end; number++) {
            for (String group : List.of("order-1", "order-2")) {
                Message message = message("steady", group + " " + number).setMessageGroup(group).build();
                persistently(() -> producer.send(message));
            }
        }
    }

    private interface Call<T> {
        T make() throws ClientException;
    }

    /** A client waits a while before it dials a server again that was away. */
    private static <T> T persistently(Call<T> call) throws Exception {
        long ends = ends();
        while (true) {
            try {
                return call.make();
            } catch (ClientException | RuntimeException e) { // 5.2.0 throws gRPC's own StatusRuntimeException, too
                if (System.nanoTime() > ends) {
                    throw e;
                }
                Thread.sleep(200);
            }
        }
    }

    private Producer producer(String topic) throws ClientException {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
    }

    private SimpleConsumer simple(String group, String topic) throws ClientException {
        return PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build();
    }

    /** Ends with the process: its close waits for its long polls, half a minute. */
    private void push(String group, String topic, MessageListener listener) throws ClientException {
        PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(listener).build();
    }

    /** So many messages, acknowledged, in the order in which they came. */
    private static List<MessageView> receive(SimpleConsumer consumer, int count) throws Exception {
        List<MessageView> found = new ArrayList<>();
        long ends = ends();
        while (found.size() < count) {
            if (System.nanoTime() > ends) {
                throw new TimeoutException("only " + bodies(found) + " came in " + PATIENCE_S + " s");
            }
            for (MessageView view : consumer.receive(32, INVISIBLE)) {
                consumer.ack(view);
                found.add(view);
            }
        }
        return found;
    }

    private static <T> T next(BlockingQueue<T> arrivals) throws Exception {
        T found = arrivals.poll(PATIENCE_S, TimeUnit.SECONDS);
        if (found == null) {
            throw new TimeoutException("nothing came in " + PATIENCE_S + " s");
        }
        return found;
    }

    private static long ends() {
        return System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
    }

    private static MessageBuilder message(String topic, String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static String bodies(List<MessageView> views) {
        List<String> found = new ArrayList<>();
        views.forEach(view -> found.add(text(view)));
        Collections.sort(found);
        return String.join(" ", found);
    }

    /** For each message group the numbers in the order in which they came, each at its first time. */
    private static String inGroups(List<MessageView> views) {
        Map<String, Set<String>> found = new TreeMap<>();
        for (MessageView view : views) {
            String[] words = text(view).split(" ");
            found.computeIfAbsent(words[0], group -> new LinkedHashSet<>()).add(words[1]);
        }
        List<String> lines = new ArrayList<>();
        found.forEach((group, numbers) -> lines.add(group + ": " + String.join(" ", numbers)));
        return String.join(", ", lines);
    }

    private static String text(MessageView view) {
        ByteBuffer body = view.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** What an exception and its causes say. */
    private static String said(Throwable e) {
        Set<String> found = new LinkedHashSet<>();
        for (Throwable each = e; each != null; each = each.getCause()) {
            found.add(String.valueOf(each.getMessage()));
        }
        return String.join(" / ", found);
    }
}
