package flightlog.interop;

import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** The bounds of one consume queue as RocketMQ sees them; {@code max} is one past the last queue offset. */
final class QueueLine {

    private QueueLine() {
    }

    static JsonLine of(String type, ConsumeQueueInterface queue) {
        return new JsonLine(type)
            .put("topic", queue.getTopic())
            .put("queueId", queue.getQueueId())
            .put("cqType", queue.getCQType().name())
            .put("min", queue.getMinOffsetInQueue())
            .put("max", queue.getMaxOffsetInQueue())
            .put("maxPhysicOffset", queue.getMaxPhysicOffset());
    }
}
