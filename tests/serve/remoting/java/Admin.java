import java.util.*;
import org.apache.rocketmq.common.*;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.protocol.admin.*;
import org.apache.rocketmq.remoting.protocol.route.*;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
/** RocketMQ's own admin client: topics, groups and statistics. */
public class Admin {
  public static void main(String[] a) throws Exception {
    Thread.setDefaultUncaughtExceptionHandler((thread, e) -> { e.printStackTrace(); System.exit(1); });
    DefaultMQAdminExt admin = new DefaultMQAdminExt(60_000); admin.setNamesrvAddr(a[0]); admin.setInstanceName("x"); admin.start();
    var cluster = admin.examineBrokerClusterInfo();
    System.out.println("cluster " + cluster.getClusterAddrTable() + " " + cluster.getBrokerAddrTable().keySet());
    String broker = cluster.getBrokerAddrTable().get("store").selectBrokerAddr();
    TopicConfig t = new TopicConfig("orders"); t.setReadQueueNums(4); t.setWriteQueueNums(4); t.setAttributes(new HashMap<>(Map.of("+message.type", "FIFO")));
    admin.createAndUpdateTopicConfig(broker, t);
    TopicConfig f = admin.examineTopicConfig(broker, "orders");
    System.out.println("topic " + f.getTopicName() + " " + f.getReadQueueNums() + " " + f.getWriteQueueNums() + " " + f.getPerm() + " " + f.getAttributes());
    SubscriptionGroupConfig g = new SubscriptionGroupConfig(); g.setGroupName("billing"); g.setRetryMaxTimes(3); g.setConsumeMessageOrderly(true);
    admin.createAndUpdateSubscriptionGroupConfig(broker, g);
    SubscriptionGroupConfig gg = admin.examineSubscriptionGroupConfig(broker, "billing");
    System.out.println("group " + gg.getGroupName() + " " + gg.getRetryMaxTimes() + " " + gg.isConsumeMessageOrderly());
    TopicStatsTable st = admin.examineTopicStats("orders");
    System.out.println("queues " + new TreeSet<>(st.getOffsetTable().keySet()).size() + " " + st.getOffsetTable().get(new MessageQueue("orders","store",0)).getMaxOffset());
    TopicRouteData r = admin.examineTopicRouteInfo("orders");
    System.out.println("route " + r.getQueueDatas().get(0).getReadQueueNums() + " " + r.getBrokerDatas().get(0).getBrokerAddrs().get(0L).equals(broker));
    System.out.println("topics " + new TreeSet<>(admin.fetchAllTopicList().getTopicList()));
    System.out.println("all " + admin.getAllTopicConfig(broker, 3000).getTopicConfigTable().containsKey("orders") + " " + admin.getAllSubscriptionGroup(broker, 3000).getSubscriptionGroupTable().containsKey("billing"));
    System.out.println("reset " + new TreeMap<>(admin.resetOffsetByTimestamp("orders", "billing", 0, true)).size());
    System.out.println("stats " + admin.examineConsumeStats("billing", "orders").getOffsetTable().size());
    admin.deleteTopicInBroker(Set.of(broker), "orders"); admin.deleteTopicInNameServer(Set.of(a[0]), "orders");
    try { admin.examineTopicRouteInfo("orders"); } catch (Exception e) { System.out.println("gone " + e.getMessage().contains("No topic route info")); }
    admin.deleteSubscriptionGroup(broker, "billing", true);
    System.out.println("done"); System.exit(0);
  }
}
