package flightlog.interop;

import com.google.common.hash.Hashing;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What RocketMQ's client makes of queues and members. {@code jobs=FILE} names a file with one line a question, words
 * separated by TABs:
 *
 * <pre>
 * allocate  STRATEGY  PARAMETER  MEMBER  member,member  topic|broker|queueId ...
 * select    GROUP     queue count
 * </pre>
 *
 * The parameter is the inner strategy of NEARBY, the rooms of MACHINE_ROOM, the indices of CONFIG; where something
 * stands is what its name says before the first dash. Answers: the queues of the member, as their places in the
 * question; the queue of a group by both rules.
 */
final class AllocateProgram {

    private final Options options;
    private final LineOutput out;

    AllocateProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Path jobs = Path.of(options.required("jobs"));
        options.refuseUnknown();
        for (String job : Files.readString(jobs, StandardCharsets.UTF_8).split("\n")) {
            String[] words = job.split("\t", -1);
            if (words[0].equals("allocate")) {
                out.print(new JsonLine("part").put("queues", allocate(words)));
            } else if (words[0].equals("select")) {
                int count = Integer.parseInt(words[2]);
                out.print(new JsonLine("selected").put("byHashCode", byHashCode(words[1], count))
                    .put("byJumpHash", Hashing.consistentHash(words[1].hashCode(), count)));
            } else if (!job.isEmpty()) {
                throw new IllegalArgumentException("no such question: " + job);
            }
        }
    }

    private static List<Long> allocate(String[] words) {
        List<MessageQueue> given = new ArrayList<>();
        for (String queue : Arrays.asList(words).subList(5, words.length)) {
            String[] parts = queue.split("\\|", -1);
            given.add(new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2])));
        }
        List<MessageQueue> queues = new ArrayList<>(given);
        List<String> members = new ArrayList<>(Arrays.asList(words[4].split(",", -1)));
        Collections.sort(queues);
        Collections.sort(members);
        List<Long> places = new ArrayList<>();
        for (MessageQueue queue : strategy(words[1], words[2], given).allocate("g", words[3], queues, members)) {
            places.add((long) given.indexOf(queue));
        }
        return places;
    }

    private static AllocateMessageQueueStrategy strategy(String name, String parameter, List<MessageQueue> given) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash(Integer.parseInt(parameter));
            case "CONFIG":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                List<MessageQueue> own = new ArrayList<>();
                for (String place : parameter.split(",")) {
                    own.add(given.get(Integer.parseInt(place)));
                }
                config.setMessageQueueList(own);
                return config;
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
                rooms.setConsumeridcs(Set.of(parameter.split(",")));
                return rooms;
            case "MACHINE_ROOM_NEARBY":
                return new AllocateMachineRoomNearby(strategy(parameter, "10", given), new ByName());
            default:
                throw new IllegalArgumentException("no such strategy: " + name);
        }
    }

    private static long byHashCode(String group, int count) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            queues.add(new MessageQueue("t", "b", i));
        }
        return new SelectMessageQueueByHash().select(queues, null, group).getQueueId();
    }

    private static final class ByName implements AllocateMachineRoomNearby.MachineRoomResolver {

        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("-")[0];
        }

        @Override
        public String consumerDeployIn(String member) {
            return member.split("-")[0];
        }
    }
}
