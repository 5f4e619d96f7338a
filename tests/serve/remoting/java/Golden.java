import java.nio.ByteBuffer;
import java.util.*;
import org.apache.rocketmq.remoting.protocol.*;

/** Without arguments: frames as RocketMQ makes them. Else: what RocketMQ reads in frames, each given in hexadecimal. */
public class Golden {
  static String hex(ByteBuffer buffer) {
    StringBuilder found = new StringBuilder();
    while (buffer.hasRemaining()) found.append(String.format("%02x", buffer.get()));
    return found.toString();
  }

  public static void main(String[] args) throws Exception {
    for (String each : args) {
      byte[] raw = new byte[each.length() / 2];
      for (int i = 0; i < raw.length; i++) raw[i] = (byte) Integer.parseInt(each.substring(2 * i, 2 * i + 2), 16);
      RemotingCommand found = RemotingCommand.decode(ByteBuffer.wrap(raw, 4, raw.length - 4).slice());
      Map<String, String> fields = found.getExtFields() == null ? Map.of() : found.getExtFields();
      System.out.println(found.getCode() + " " + found.getOpaque() + " " + found.getFlag() + " " + found.getLanguage()
          + " " + found.getVersion() + " " + found.getRemark() + " " + new TreeMap<>(fields) + " "
          + (found.getBody() == null ? 0 : found.getBody().length));
    }
    for (SerializeType kind : args.length > 0 ? new SerializeType[0] : SerializeType.values()) {
      for (int i = 0; i < 4; i++) {
        RemotingCommand made = i == 1 ? RemotingCommand.createResponseCommand(17, "No topic route info")
            : RemotingCommand.createRequestCommand(i == 0 ? 105 : 310, null);
        made.setOpaque(7 + i);
        made.setVersion(479);
        made.setSerializeTypeCurrentRPC(kind);
        made.setLanguage(i == 3 ? LanguageCode.GO : LanguageCode.JAVA);
        HashMap<String, String> fields = new HashMap<>();
        if (i != 1) fields.put("topic", "orders");
        if (i == 2) {
          fields.put("i", "K\u0001V\u0002");
          fields.put("t\u00e4g", "\u20ac");
          made.setBody("hello".getBytes());
          made.markOnewayRPC();
        }
        made.setExtFields(fields);
        System.out.println(kind + " " + i + " " + hex(made.encode()));
      }
    }
  }
}
