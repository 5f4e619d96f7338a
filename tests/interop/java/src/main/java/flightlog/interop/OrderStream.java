package flightlog.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;

/**
 * Orders under way side by side: each sends create, pay, deduct (its tags) with one key, in this order, to one queue
 * of topic {@code orders}.
 */
final class OrderStream {

    static final String TOPIC = "orders";
    private static final String[] STEPS = {"create", "pay", "deduct"};

    private static final class Order {
        final int number;
        final int amountCents;
        int done;

        Order(int number, int amountCents) {
            this.number = number;
            this.amountCents = amountCents;
        }
    }

    private final List<Order> underWay = new ArrayList<>();
    private final int first;
    private final int end;
    private final int queues;
    private int next;
    private int left;

    /** Orders numbered from {@code first}, {@code count} of them. */
    OrderStream(int first, int count, int queues) {
        this.first = first;
        this.end = first + count;
        this.queues = queues;
        this.next = first;
        this.left = count * STEPS.length;
    }

    /** Messages still to come. */
    int left() {
        return left;
    }

    MessageExtBrokerInner next(Random random) {
        boolean begins = next < end && (underWay.isEmpty() || random.nextInt(STEPS.length) == 0);
        if (begins) {
            underWay.add(new Order(next++, 100 + random.nextInt(100_000)));
        }
        int at = begins ? underWay.size() - 1 : random.nextInt(underWay.size());
        Order order = underWay.get(at);
        String step = STEPS[order.done++];
        if (order.done == STEPS.length) {
            underWay.remove(at);
        }
        left--;
        return message(order, step, random);
    }

    private MessageExtBrokerInner message(Order order, String step, Random random) {
        String key = String.format("order-%06d", order.number);
        String body = String.format(
            "{\"order\":\"%s\",\"step\":\"%s\",\"amount_cents\":%d}", key, step, order.amountCents);
        Map<String, String> properties = new HashMap<>();
        properties.put("KEYS", key);
        properties.put("TAGS", step);
        properties.put("UNIQ_KEY", Words.uniqueKey(random));
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(TOPIC);
        message.setQueueId((order.number - first) % queues);
        message.setBody(body.getBytes(StandardCharsets.UTF_8));
        MessageAccessor.setProperties(message, properties);
        return message;
    }
}
