package flightlog.interop;

import java.io.IOException;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;

/** Reads one consume queue from its minimum to its maximum through {@code getMessage}, a page at a time. */
final class QueueReader {

    /** Sees each message together with its queue entry. */
    interface Visitor {
        void message(CqUnit entry, LogRecord record) throws IOException;
    }

    private static final String GROUP = "interop";
    private static final int PAGE_MESSAGES = 1024;

    private final DefaultMessageStore store;
    private final ConsumeQueueInterface queue;
    private final LineOutput out;
    private long problems;

    QueueReader(DefaultMessageStore store, ConsumeQueueInterface queue, LineOutput out) {
        this.store = store;
        this.queue = queue;
        this.out = out;
    }

    /** Returns how many problems it printed: each is a stretch of queue offsets that gave no message. */
    long read(Visitor visitor) throws IOException {
        long end = queue.getMaxOffsetInQueue();
        for (long at = queue.getMinOffsetInQueue(); at < end; ) {
            GetMessageResult page =
                store.getMessage(GROUP, queue.getTopic(), queue.getQueueId(), at, PAGE_MESSAGES, null);
            try {
                if (page.getStatus() == GetMessageStatus.FOUND) {
                    visitPage(page, at, visitor);
                } else {
                    problem(at, page.getNextBeginOffset(), page.getStatus().name());
                }
                if (page.getNextBeginOffset() <= at) {
                    problem(at, end, "no way forward");
                    break;
                }
                at = page.getNextBeginOffset();
            } finally {
                page.release();
            }
        }
        return problems;
    }

    private void visitPage(GetMessageResult page, long begin, Visitor visitor) throws IOException {
        ReferredIterator<CqUnit> entries = queue.iterateFrom(begin);
        try {
            long expected = begin;
            for (int i = 0; i < page.getMessageMapedList().size(); i++) {
                long queueOffset = page.getMessageQueueOffset().get(i);
                if (queueOffset != expected) {
                    problem(expected, queueOffset, "skipped");
                }
                CqUnit entry = entries.next();
                while (entry.getQueueOffset() < queueOffset) {
                    entry = entries.next();
                }
                LogRecord record = LogRecord.readOrNull(page.getMessageMapedList().get(i).getByteBuffer());
                expected = queueOffset + entry.getBatchNum();
                if (record == null) {
                    problem(queueOffset, expected, "not a record");
                } else {
                    visitor.message(entry, record);
                }
            }
            if (expected != page.getNextBeginOffset()) {
                problem(expected, page.getNextBeginOffset(), "skipped");
            }
        } finally {
            entries.release();
        }
    }

    private void problem(long from, long next, String status) throws IOException {
        problems++;
        out.print(new JsonLine("problem")
            .put("topic", queue.getTopic())
            .put("queueId", queue.getQueueId())
            .put("offset", from)
            .put("status", status)
            .put("next", next));
    }
}
