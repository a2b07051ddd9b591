import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a share group, one for each acknowledgement mode, until standard input ends. Prints a line for each
 * delivered record after its acknowledgement: mode, type, value. Arguments: bootstrap servers, group, topic.
 */
public class ShareMembers {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static volatile boolean leaving;

    public static void main(String[] arguments) throws Exception {
        List<Thread> members = new ArrayList<>();
        for (String mode : List.of("implicit", "explicit")) {
            Thread member = new Thread(() -> run(mode, arguments[0], arguments[1], arguments[2]));
            member.setUncaughtExceptionHandler((thread, error) -> {
                error.printStackTrace();
                System.exit(1);
            });
            member.start();
            members.add(member);
        }
        while (System.in.read() >= 0) { }
        leaving = true;
        for (Thread member : members) {
            member.join();
        }
    }

    private static void run(String mode, String servers, String group, String topic) {
        Map<String, Object> config = new HashMap<>(Map.of(
            "bootstrap.servers", servers, "group.id", group, "share.acknowledgement.mode", mode, "max.poll.records", 50));
        Set<String> renewed = new HashSet<>();
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!leaving) {
                List<String> lines = new ArrayList<>();
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    String value = new String(record.value(), StandardCharsets.UTF_8);
                    String type = "accept";
                    if (mode.equals("explicit")) {
                        type = type(Integer.parseInt(value), record.deliveryCount().orElse((short) 0), renewed.add(value));
                        consumer.acknowledge(record, AcknowledgeType.valueOf(type.toUpperCase()));
                    }
                    if (!type.equals("renew")) {
                        lines.add(mode + " " + type + " " + value);
                    }
                }
                for (Map.Entry<TopicIdPartition, Optional<KafkaException>> outcome : consumer.commitSync().entrySet()) {
                    if (outcome.getValue().isPresent()) {
                        throw outcome.getValue().get();
                    }
                }
                lines.forEach(OUT::println);
                OUT.flush();
            }
        }
    }

    /** Returns the decision about a record, which equals that of the members in Python. */
    private static String type(int number, int deliveries, boolean first) {
        if (number % 7 == 0 && deliveries == 1) {
            return "release";
        }
        // A renewed record is returned again by the next poll.
        return number % 13 == 0 && first ? "renew" : number % 11 == 0 ? "reject" : "accept";
    }
}
