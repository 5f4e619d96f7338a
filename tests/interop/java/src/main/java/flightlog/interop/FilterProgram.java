package flightlog.interop;

import java.io.StringReader;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.expression.BooleanExpression;
import org.apache.rocketmq.filter.expression.ComparisonExpression;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.parser.ParseException;
import org.apache.rocketmq.filter.parser.SelectorParser;
import org.apache.rocketmq.filter.parser.TokenMgrError;

/**
 * What RocketMQ's SQL92 filter makes of expressions and messages. {@code jobs=FILE} names a file with one line an
 * expression, words separated by TABs and encoded as in an URL: the expression, then each message as
 * {@code name=value&name=value}.
 *
 * <p>Answers: a letter a message, T true, F false, N null, E an exception; a single R where the parser refuses the
 * expression. {@code isWhole} says whether the parser read all of it: it ignores what follows a filter.
 */
final class FilterProgram {

    private final Options options;
    private final LineOutput out;

    FilterProgram(Options options, LineOutput out) {
        this.options = options;
        this.out = out;
    }

    void run() throws Exception {
        Path jobs = Path.of(options.required("jobs"));
        options.refuseUnknown();
        for (String job : Files.readString(jobs, StandardCharsets.US_ASCII).split("\n")) {
            String[] words = job.split("\t", -1);
            String expression = decoded(words[0]);
            out.print(new JsonLine("verdicts").put("of", verdicts(expression, words)).put("isWhole", isWhole(expression)));
        }
    }

    private static String verdicts(String expression, String[] words) {
        BooleanExpression filter;
        try {
            filter = SelectorParser.parse(expression);
        } catch (MQFilterException refused) {
            return "R";
        }
        StringBuilder found = new StringBuilder();
        for (int i = 1; i < words.length; i++) {
            found.append(verdict(filter, new MessageEvaluationContext(properties(words[i]))));
        }
        return found.toString();
    }

    private static char verdict(BooleanExpression filter, EvaluationContext message) {
        try {
            Object answer = filter.evaluate(message);
            return answer == null ? 'N' : (Boolean) answer ? 'T' : 'F';
        } catch (Exception incomparable) {
            return 'E';
        }
    }

    private static boolean isWhole(String expression) {
        SelectorParser parser = new SelectorParser(new StringReader(expression));
        ComparisonExpression.CONVERT_STRING_EXPRESSIONS.set(true);
        try {
            parser.JmsSelector();
            return parser.getNextToken().kind == 0;
        } catch (ParseException | RuntimeException | TokenMgrError refused) {
            return false;
        } finally {
            ComparisonExpression.CONVERT_STRING_EXPRESSIONS.remove();
        }
    }

    private static Map<String, String> properties(String word) {
        Map<String, String> found = new HashMap<>();
        for (String pair : word.isEmpty() ? new String[0] : word.split("&")) {
            int end = pair.indexOf('=');
            found.put(decoded(pair.substring(0, end)), decoded(pair.substring(end + 1)));
        }
        return found;
    }

    private static String decoded(String word) {
        return URLDecoder.decode(word, StandardCharsets.UTF_8);
    }
}
