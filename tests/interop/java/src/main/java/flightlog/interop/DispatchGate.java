package flightlog.interop;

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.store.MessageArrivingListener;

/**
 * Stops RocketMQ's dispatch thread for good behind a given number of messages, so that a halted store has exactly so
 * many records that no queue and no index knows. RocketMQ calls the listener on that thread after each message.
 */
final class DispatchGate implements MessageArrivingListener {

    private final long limit;
    private final CountDownLatch reached = new CountDownLatch(1);
    private final CountDownLatch never = new CountDownLatch(1);
    private long dispatched;  // written by the dispatch thread alone

    DispatchGate(long limit) {
        this.limit = limit;
    }

    void awaitReached() throws InterruptedException {
        reached.await();
    }

    @Override
    public void arriving(
        String topic, int queueId, long queueOffset, long tagsCode, long storeTimestamp, byte[] bitMap,
        Map<String, String> properties) {
        dispatched++;
        if (dispatched >= limit) {
            reached.countDown();
            try {
                never.await();
            } catch (InterruptedException shutdown) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
