package flightlog.interop;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/**
 * Opens stores one after the other in one process and lets RocketMQ answer questions about each. {@code jobs=FILE}
 * names a file with one line a store: its options as name=value separated by TABs, {@code questions=FILE} among them,
 * a file of {@link Questions}.
 *
 * <p>For each store: a {@code store} line, a {@code queue} line for each queue, an answer for each question in its
 * order, a {@code done} line. The stores are not shut down: that takes RocketMQ three seconds each, and whoever asks
 * hands in copies that he throws away.
 */
final class AskProgram {

    private final Options options;
    private final LineOutput out;

    AskProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Path jobs = Path.of(options.required("jobs"));
        options.refuseUnknown();
        for (String job : Files.readString(jobs, StandardCharsets.UTF_8).split("\n")) {
            if (!job.isEmpty()) {
                ask(new Options(Arrays.asList(job.split("\t"))));
            }
        }
    }

    private void ask(Options job) throws Exception {
        Path questions = Path.of(job.required("questions"));
        StoreSession session = StoreSession.open(job);
        session.awaitDispatch();
        StoreLine.print(out, session);
        for (ConsumeQueueInterface queue : session.queues()) {
            out.print(QueueLine.of("queue", queue));
        }
        long answers = new Questions(session, out).answerAll(questions);
        out.print(new JsonLine("done").put("answers", answers));
        out.flush();
    }
}
