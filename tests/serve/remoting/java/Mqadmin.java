import java.util.*;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Commands of RocketMQ's own mqadmin, one after the other. */
public class Mqadmin {
  public static void main(String[] args) {
    String server = args[0];
    System.setProperty("rocketmq.namesrv.addr", server);
    for (String command : List.of(
        "updateTopic -b " + server + " -t orders -r 4 -w 4", "updateSubGroup -b " + server + " -g billing",
        "sendMessage -t orders -p hello -k k1 -c a -b store -i 0", "topicList", "topicStatus -t orders",
        "topicRoute -t orders", "clusterList", "brokerStatus -b " + server, "queryMsgByKey -t orders -k k1",
        "queryMsgByOffset -t orders -b store -i 0 -o 0", "printMsg -t orders -d true", "consumerProgress",
        "resetOffsetByTime -g billing -t orders -s now", "skipAccumulatedMessage -g billing -t orders",
        "allocateMQ -t orders -i a,b", "deleteTopic -c DefaultCluster -t orders")) {
      System.out.println("== " + command.split(" ")[0]);
      MQAdminStartup.main0(command.split(" "), null);
    }
    System.out.println();
    System.out.println("== done");
    System.exit(0);
  }
}
