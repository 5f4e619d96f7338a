import io.netty.channel.ChannelHandlerContext;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRequestProcessor;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.body.SetMessageRequestModeRequestBody;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * RocketMQ's broker, or its client, each at its defaults and in a process of its own; asked line by line. Every answer
 * is a line of JSON.
 *
 * <pre>
 * broker FOLDER FLUSH
 *     topic NAME QUEUES POP|PULL     answers with the broker's address; the topic's only group has the same name
 * client
 *     run ADDRESS TOPIC MEMBERS POP|PULL COUNT RATE BODY_SIZE LATENCIES
 *         RATE 0: a backlog is worked off. Else messages a second; their latencies go into the file.
 * </pre>
 */
public final class RocketmqMessaging {

    private static final String HOST = "127.0.0.1";
    private static final long FIRST = -1;
    private static final int BATCH = 200;
    private static final long LIMIT_S = 120;
    private static final int DEFAULT_PULL_THRESHOLD = 1000;
    private static final PrintStream ANSWERS = System.out;
    private static BrokerController broker;

    public static void main(String[] arguments) {
        System.setOut(System.err);
        try {
            if (arguments[0].equals("broker")) {
                startBroker(arguments[1], FlushDiskType.valueOf(arguments[2]));
            }
            BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String order = orders.readLine(); order != null; order = orders.readLine()) {
                String[] words = order.split(" ");
                ANSWERS.println(words[0].equals("topic") ? topic(words) : run(words));
                ANSWERS.flush();
            }
            Runtime.getRuntime().halt(0); // its folder is thrown away
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void startBroker(String folder, FlushDiskType flush) throws Exception {
        BrokerConfig config = new BrokerConfig();
        config.setBrokerIP1(HOST);
        NettyServerConfig server = new NettyServerConfig();
        server.setBindAddress(HOST);
        server.setListenPort(0);
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(folder);
        store.setStorePathCommitLog(folder + "/commitlog");
        store.setFlushDiskType(flush);
        store.setHaListenPort(0);
        broker = new BrokerController(config, server, new NettyClientConfig(), store);
        if (!broker.initialize()) {
            throw new IllegalStateException("the broker did not initialize, see store.log");
        }
        broker.getRemotingServer().registerProcessor(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, new Routes(), Executors.newSingleThreadExecutor());
        broker.start();
        broker.getBrokerOuterAPI().updateNameServerAddressList(address()); // who pops asks it which queues there are
    }

    /** In place of a name server: every topic is at this broker. */
    private static final class Routes implements NettyRequestProcessor {

        @Override
        public RemotingCommand processRequest(ChannelHandlerContext context, RemotingCommand request) {
            TopicConfig topic =
                broker.getTopicConfigManager().selectTopicConfig(request.getExtFields().get("topic"));
            if (topic == null) {
                return RemotingCommand.createResponseCommand(ResponseCode.TOPIC_NOT_EXIST, "no such topic");
            }
            String name = broker.getBrokerConfig().getBrokerName();
            QueueData queues = new QueueData();
            queues.setBrokerName(name);
            queues.setReadQueueNums(topic.getReadQueueNums());
            queues.setWriteQueueNums(topic.getWriteQueueNums());
            queues.setPerm(topic.getPerm());
            HashMap<Long, String> addresses = new HashMap<>(Map.of(MixAll.MASTER_ID, address()));
            TopicRouteData route = new TopicRouteData();
            route.setQueueDatas(List.of(queues));
            route.setBrokerDatas(List.of(new BrokerData("bench", name, addresses)));
            RemotingCommand response = RemotingCommand.createResponseCommand(ResponseCode.SUCCESS, null);
            response.setBody(route.encode());
            return response;
        }

        @Override
        public boolean rejectRequest() {
            return false;
        }
    }

    private static String address() {
        return HOST + ":" + broker.getRemotingServer().localListenPort();
    }

    private static String topic(String[] words) {
        int queues = Integer.parseInt(words[2]);
        SetMessageRequestModeRequestBody mode = new SetMessageRequestModeRequestBody();
        mode.setTopic(words[1]);
        mode.setConsumerGroup(words[1]);
        mode.setMode(MessageRequestMode.valueOf(words[3]));
        broker.getQueryAssignmentProcessor().getMessageRequestModeManager()
            .setMessageRequestMode(words[1], words[1], mode);
        broker.getTopicConfigManager().updateTopicConfig(new TopicConfig(words[1], queues, queues));
        return "{\"address\": \"" + address() + "\"}";
    }

    private static String run(String[] words) throws Exception {
        String names = words[1];
        String topic = words[2];
        int members = Integer.parseInt(words[3]);
        boolean isPop = words[4].equals("POP");
        int count = Integer.parseInt(words[5]);
        int rate = Integer.parseInt(words[6]);
        int bodySize = Integer.parseInt(words[7]);

        DefaultMQProducer producer = new DefaultMQProducer(topic + "-producer");
        producer.setNamesrvAddr(names);
        producer.setInstanceName(topic + "-producer");
        producer.start();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        CountDownLatch first = new CountDownLatch(queues.size());
        CountDownLatch go = new CountDownLatch(rate == 0 ? 1 : 0);
        CountDownLatch done = new CountDownLatch(count);
        AtomicInteger taken = new AtomicInteger();
        long[] latencies = new long[count];
        MessageListenerConcurrently listener = (messages, context) -> {
            for (MessageExt message : messages) {
                long stamp = ByteBuffer.wrap(message.getBody()).getLong();
                if (stamp == FIRST) {
                    first.countDown();
                    continue;
                }
                int number = taken.getAndIncrement();
                if (number < count) {
                    latencies[number] = System.nanoTime() - stamp;
                }
                awaitQuietly(go);
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
        List<DefaultMQPushConsumer> group = new ArrayList<>();
        for (int number = 0; number < members; number++) {
            DefaultMQPushConsumer member = new DefaultMQPushConsumer(topic);
            member.setNamesrvAddr(names);
            member.setInstanceName(topic + "-" + number);
            member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            member.setConsumeThreadMin(1);
            member.setConsumeThreadMax(1);
            member.setClientRebalance(!isPop);
            member.subscribe(topic, "*");
            member.registerMessageListener(listener);
            member.start();
            group.add(member);
        }
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        while (!areBalanced(group, queues.size(), isPop)) {
            Thread.sleep(20);
            if (System.nanoTime() > deadlineNs) {
                throw new IllegalStateException("the members do not share the queues out");
            }
        }
        for (MessageQueue queue : queues) {
            producer.send(message(topic, FIRST, bodySize), queue);
        }
        await(first);
        long beganNs = System.nanoTime();
        if (rate == 0) {
            group.forEach(member -> member.setPullThresholdForQueue(1)); // else they would read ahead of the clock
            fill(producer, topic, queues, count, bodySize);
            group.forEach(member -> member.setPullThresholdForQueue(DEFAULT_PULL_THRESHOLD));
            beganNs = System.nanoTime();
            go.countDown();
        } else {
            for (int number = 0; number < count; number++) {
                LockSupport.parkNanos(beganNs + number * 1_000_000_000L / rate - System.nanoTime());
                producer.send(message(topic, System.nanoTime(), bodySize));
            }
        }
        double putS = (System.nanoTime() - beganNs) / 1e9;
        await(done);
        double seconds = (System.nanoTime() - beganNs) / 1e9;
        group.forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
        try (DataOutputStream file =
                 new DataOutputStream(new BufferedOutputStream(new FileOutputStream(words[8])))) {
            for (long latency : latencies) {
                file.writeLong(latency);
            }
        }
        return "{\"seconds\": " + seconds + ", \"put_s\": " + putS + "}";
    }

    private static void fill(
        DefaultMQProducer producer, String topic, List<MessageQueue> queues, int count, int bodySize) throws Exception {
        for (int put = 0, turn = 0; put < count; turn++) {
            List<Message> batch = new ArrayList<>();
            for (; put < count && batch.size() < BATCH; put++) {
                batch.add(message(topic, put, bodySize));
            }
            producer.send(batch, queues.get(turn % queues.size()));
        }
    }

    private static Message message(String topic, long stamp, int bodySize) {
        return new Message(topic, ByteBuffer.allocate(bodySize).putLong(stamp).array());
    }

    /** Whether every member has its share of the queues, popping ones all of them. */
    private static boolean areBalanced(List<DefaultMQPushConsumer> group, int queues, boolean isPop) {
        int sum = 0;
        for (DefaultMQPushConsumer member : group) {
            RebalanceImpl balance = member.getDefaultMQPushConsumerImpl().getRebalanceImpl();
            if (isPop) {
                if (balance.getPopProcessQueueTable().isEmpty()) {
                    return false;
                }
                continue;
            }
            int has = (int) balance.getProcessQueueTable().keySet().stream()
                .filter(queue -> !queue.getTopic().startsWith("%RETRY%")).count();
            if (has < queues / group.size() || has > (queues + group.size() - 1) / group.size()) {
                return false;
            }
            sum += has;
        }
        return isPop || sum == queues;
    }

    private static void await(CountDownLatch latch) throws InterruptedException {
        if (!latch.await(LIMIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(latch.getCount() + " messages have not come");
        }
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
