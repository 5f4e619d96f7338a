package flightlog.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.processor.PopMessageProcessor;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.KeyBuilder;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeResponseHeader;
import org.apache.rocketmq.remoting.protocol.header.ConsumerSendMsgBackRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageResponseHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * Messages popped from a broker. Its orders:
 *
 * <pre>
 * topic   NAME QUEUES
 * group   NAME
 * orderly NAME                                    a group that pops in order
 * pop     GROUP TOPIC COUNT INVISIBLE_MS NAMES    the messages take the names, of letters, one after the other;
 *                                                 with * the names are GROUP.BODY; an attempt id may follow
 * limited GROUP TOPIC COUNT INVISIBLE_MS NAMES MAX_ATTEMPTS
 *                                                 what was delivered so often becomes a dead letter, as in the proxy
 * ack     GROUP TOPIC NAME
 * change  GROUP TOPIC NAME INVISIBLE_MS           the name has the new handle then, and the name with ' the old one
 * handle  NAME EXTRA_INFO                         a handle that was given elsewhere
 * back    GROUP OFFSET LEVEL                      a consumer sends back what lies at this byte of the log
 * arrived TOPIC COUNT                             waits until the first queue of the topic ends there, or says that
 *                                                 messages are missing
 * </pre>
 *
 * The argument {@code retryFirst} is the broker's {@code popFromRetryProbability}.
 */
final class PopProgram extends BrokerProgram {

    private static final long ARRIVAL_LIMIT_MS = 60_000;

    /** The code of a call that was not made, because its handle is over. */
    private static final int EXPIRED = -1;

    private final Map<String, String> handles = new HashMap<>();

    /** Until when the orders "arrived" that follow each other wait. */
    private long arrivalLimit;

    PopProgram(Options options, LineOutput out) {
        super(options, out);
    }

    @Override
    void configure(BrokerConfig config) {
        config.setPopFromRetryProbability(options.number("retryFirst", config.getPopFromRetryProbability()));
    }

    @Override
    void follow(String[] words) throws Exception {
        if (!words[0].equals("arrived")) {
            arrivalLimit = System.currentTimeMillis() + ARRIVAL_LIMIT_MS;
        }
        switch (words[0]) {
            case "topic":
                TopicConfig topic = new TopicConfig(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[2]));
                broker.getTopicConfigManager().updateTopicConfig(topic);
                break;
            case "group":
            case "orderly":
                SubscriptionGroupConfig group = new SubscriptionGroupConfig();
                group.setGroupName(words[1]);
                group.setConsumeMessageOrderly(words[0].equals("orderly"));
                broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(group);
                break;
            case "pop":
                pop(words, words.length > 6 ? words[6] : null);
                break;
            case "limited":
                int maxAttempts = Integer.parseInt(words[6]);
                for (Map.Entry<String, MessageExt> each : pop(words, null).entrySet()) {
                    if (each.getValue().getReconsumeTimes() >= maxAttempts) {
                        back(words[1], words[2], each.getValue().getCommitLogOffset(), -1);
                        ack(words[1], words[2], each.getKey());
                    }
                }
                break;
            case "ack":
                ack(words[1], words[2], words[3]);
                break;
            case "change":
                change(words);
                break;
            case "handle":
                handles.put(words[1], words[2]);
                break;
            case "back":
                back(words[1], "orders", Long.parseLong(words[2]), Integer.parseInt(words[3]));
                break;
            case "arrived":
                arrived(words[1], Long.parseLong(words[2]));
                break;
            default:
                throw new IllegalArgumentException("no order is called " + words[0]);
        }
    }

    private void arrived(String topic, long count) throws Exception {
        while (broker.getMessageStore().getMaxOffsetInQueue(topic, 0) < count) {
            if (System.currentTimeMillis() > arrivalLimit) {
                print(new JsonLine("missing").put("topic", topic).put("count", count));
                return;
            }
            Thread.sleep(20);
        }
    }

    private void back(String group, String topic, long offset, int level) throws Exception {
        ConsumerSendMsgBackRequestHeader header = new ConsumerSendMsgBackRequestHeader();
        header.setGroup(group);
        header.setOffset(offset);
        header.setDelayLevel(level);
        header.setOriginTopic(topic);
        header.setUnitMode(false);
        RemotingCommand response = call(RequestCode.CONSUMER_SEND_MSG_BACK, header);
        print(new JsonLine("back").put("code", response.getCode()).put("remark", response.getRemark()));
    }

    /** What was popped, by name. */
    private Map<String, MessageExt> pop(String[] words, String attemptId) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(words[1]);
        header.setTopic(words[2]);
        header.setQueueId(-1);
        header.setMaxMsgNums(Integer.parseInt(words[3]));
        header.setInvisibleTime(Long.parseLong(words[4]));
        header.setPollTime(0);
        // A broker answers nothing to a request that is older than half a second.
        header.setBornTime(System.currentTimeMillis() + TIMEOUT_MS);
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(isOrdered(words[1]));
        header.setAttemptId(attemptId);
        awaitLocks(words[1], words[2]);
        RemotingCommand response = call(RequestCode.POP_MESSAGE, header);
        List<MessageExt> found = new ArrayList<>();
        PopMessageResponseHeader answer = null;
        if (response.getBody() != null && response.getCode() == 0) {
            found = MessageDecoder.decodesBatch(java.nio.ByteBuffer.wrap(response.getBody()), true, true, false);
            answer = response.decodeCommandCustomHeader(PopMessageResponseHeader.class);
        }
        Map<String, MessageExt> named = new LinkedHashMap<>();
        for (MessageExt message : found) {
            String handle = message.getProperty(MessageConst.PROPERTY_POP_CK);
            if (handle == null) {
                Map<String, Long> starts = ExtraInfoUtil.parseStartOffsetInfo(answer.getStartOffsetInfo());
                String key = ExtraInfoUtil.getStartOffsetInfoMapKey(message.getTopic(), message.getQueueId());
                handle = ExtraInfoUtil.buildExtraInfo(starts.get(key), answer.getPopTime(), answer.getInvisibleTime(),
                    answer.getReviveQid(), message.getTopic(), "store", message.getQueueId(), message.getQueueOffset());
            }
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            String name = words[5].equals("*") ? words[1] + "." + body : words[5] + named.size();
            handles.put(name, handle);
            named.put(name, message);
            print(new JsonLine("popped")
                .put("name", name)
                .put("body", body)
                .put("topic", message.getTopic())
                .put("reconsumeTimes", message.getReconsumeTimes())
                .put("handle", handle)
                .put("at", System.currentTimeMillis()));
        }
        print(new JsonLine("pop")
            .put("group", words[1])
            .put("code", response.getCode())
            .put("count", found.size())
            .put("counts", answer == null ? null : answer.getOrderCountInfo())
            .put("at", System.currentTimeMillis()));
        return named;
    }

    /** As RocketMQ's proxy decides it. */
    private boolean isOrdered(String group) {
        SubscriptionGroupConfig config = broker.getSubscriptionGroupManager().findSubscriptionGroupConfig(group);
        return config != null && config.isConsumeMessageOrderly();
    }

    /**
     * A pop passes over a queue that another thread holds: that of a pop that was answered, and the service that
     * commits the offsets of what was popped, some milliseconds later.
     */
    private void awaitLocks(String group, String topic) throws Exception {
        PopMessageProcessor popping = broker.getPopMessageProcessor();
        for (String name : List.of(topic, KeyBuilder.buildPopRetryTopicV1(topic, group))) {
            TopicConfig config = broker.getTopicConfigManager().selectTopicConfig(name);
            for (int queueId = 0; config != null && queueId < config.getReadQueueNums(); queueId++) {
                while (popping.getPopBufferMergeService().getLatestOffset(name, group, queueId) >= 0
                    || !popping.getQueueLockManager().tryLock(name, group, queueId)) {
                    Thread.sleep(1);
                }
                popping.getQueueLockManager().unLock(name, group, queueId);
            }
        }
    }

    private void ack(String group, String topic, String name) throws Exception {
        String[] extra = ExtraInfoUtil.split(handles.get(name));
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(realTopic(group, topic, extra));
        header.setQueueId(ExtraInfoUtil.getQueueId(extra));
        header.setOffset(ExtraInfoUtil.getQueueOffset(extra));
        header.setExtraInfo(handles.get(name));
        int code = isExpired(extra) ? EXPIRED : call(RequestCode.ACK_MESSAGE, header).getCode();
        print(new JsonLine("ack")
            .put("group", group)
            .put("name", name)
            .put("code", code)
            .put("at", System.currentTimeMillis()));
    }

    private void change(String[] words) throws Exception {
        String[] extra = ExtraInfoUtil.split(handles.get(words[3]));
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(words[1]);
        header.setTopic(realTopic(words[1], words[2], extra));
        header.setQueueId(ExtraInfoUtil.getQueueId(extra));
        header.setOffset(ExtraInfoUtil.getQueueOffset(extra));
        header.setExtraInfo(handles.get(words[3]));
        header.setInvisibleTime(Long.parseLong(words[4]));
        // Within the millisecond of its pop time the new check point is taken for the old one, and lost with its ack.
        while (System.currentTimeMillis() <= ExtraInfoUtil.getPopTime(extra)) {
            Thread.onSpinWait();
        }
        RemotingCommand response =
            isExpired(extra) ? null : call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header);
        JsonLine line = new JsonLine("change")
            .put("group", words[1])
            .put("name", words[3])
            .put("code", response == null ? EXPIRED : response.getCode())
            .put("at", System.currentTimeMillis());
        if (response == null || response.getCode() != 0) {
            print(line);
            return;
        }
        ChangeInvisibleTimeResponseHeader answer =
            response.decodeCommandCustomHeader(ChangeInvisibleTimeResponseHeader.class);
        String handle = ExtraInfoUtil.buildExtraInfo(header.getOffset(), answer.getPopTime(), answer.getInvisibleTime(),
            answer.getReviveQid(), header.getTopic(), "store", header.getQueueId(), header.getOffset());
        handles.put(words[3] + "'", handles.put(words[3], handle));
        print(line.put("handle", handle));
    }

    /** What a proxy looks at before it asks its broker. */
    private static boolean isExpired(String[] extra) {
        return ExtraInfoUtil.getPopTime(extra) + ExtraInfoUtil.getInvisibleTime(extra) <= System.currentTimeMillis();
    }

    private static String realTopic(String group, String topic, String[] extra) {
        boolean isRetry = ExtraInfoUtil.getRetry(extra).equals("1");
        return isRetry ? KeyBuilder.buildPopRetryTopicV1(topic, group) : topic;
    }}
