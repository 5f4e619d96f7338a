import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.acl.common.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Clients and mqadmin with an access key, with a wrong one, and without. */
public class Secured {
  static final long PATIENCE_S = 60;
  static String server;

  static RPCHook hook(String key, String secret) { return new AclClientRPCHook(new SessionCredentials(key, secret)); }

  static String sends(String topic, RPCHook hook) throws Exception {
    DefaultMQProducer producer = new DefaultMQProducer("producers", hook);
    producer.setNamesrvAddr(server);
    producer.setInstanceName(UUID.randomUUID().toString());
    producer.setSendMsgTimeout((int) TimeUnit.SECONDS.toMillis(PATIENCE_S));
    producer.setRetryTimesWhenSendFailed(0);
    producer.start();
    try {
      return producer.send(new Message(topic, "paid".getBytes(StandardCharsets.UTF_8))).getSendStatus().toString();
    } catch (Exception e) {
      Throwable cause = e;
      while (cause.getCause() != null) cause = cause.getCause();
      return cause.getMessage().replaceAll("(?s)\\R.*", "");
    } finally {
      producer.shutdown();
    }
  }

  static String receives(String group, RPCHook hook) throws Exception {
    CompletableFuture<String> found = new CompletableFuture<>();
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook);
    consumer.setNamesrvAddr(server);
    consumer.setInstanceName(group);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe("orders", "*");
    consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
      found.complete(new String(messages.get(0).getBody(), StandardCharsets.UTF_8));
      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    });
    consumer.start();
    String body = found.get(PATIENCE_S, TimeUnit.SECONDS);
    consumer.shutdown();
    return body;
  }

  public static void main(String[] args) throws Exception {
    server = args[0];
    RPCHook application = hook("application", args[1]);
    System.out.println("TLS " + new DefaultMQProducer("any").isUseTLS());
    System.out.println("signed " + sends("orders", application));
    System.out.println("other topic " + sends("secret", application));
    System.out.println("wrong secret " + sends("orders", hook("application", "87654321")));
    System.out.println("unsigned " + sends("orders", null));
    System.out.println("received " + receives("billing", application));
    System.setProperty("rocketmq.namesrv.addr", server);
    System.setErr(System.out);
    String[] command = ("updateTopic -b " + server + " -t made -r 1 -w 1").split(" ");
    System.out.println("== mqadmin without credentials");
    MQAdminStartup.main0(command, null);
    for (String key : List.of("application", "administrator")) {
      System.out.println("== mqadmin as " + key);
      Path tools = Path.of(System.getProperty("rocketmq.home.dir"), "conf", "tools.yml");
      Files.createDirectories(tools.getParent());
      Files.writeString(tools, "accessKey: " + key + "\nsecretKey: " + args[1] + "\n");
      MQAdminStartup.main0(command, null);
    }
    System.out.println("== done");
    System.exit(0);
  }
}
