import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads partition 0 of a topic repeatedly, and prints the time of each pass except the first. */
public final class Consume {
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] arguments) throws Exception {
        long count = Long.parseLong(arguments[2]);
        int passes = Integer.parseInt(arguments[3]);
        List<TopicPartition> partition = List.of(new TopicPartition(arguments[1], 0));
        Map<String, Object> options = Map.of(
            "bootstrap.servers", arguments[0],
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class,
            "enable.auto.commit", "false");
        StringBuilder found = new StringBuilder();
        for (int pass = 0; pass <= passes; pass++) {
            // Each pass needs a new consumer: after a seek, the old one would still hold prefetched records.
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options)) {
                consumer.assign(partition);
                consumer.seekToBeginning(partition);
                String line = pass(consumer, count);
                // The first pass loads and compiles code, and is not measured.
                if (pass > 0) {
                    found.append(pass > 1 ? "," : "").append(line);
                }
            }
        }
        System.out.println("[" + found + "]");
    }

    private static String pass(KafkaConsumer<byte[], byte[]> consumer, long count) throws Exception {
        long rows = 0, bytes = 0, started = System.nanoTime(), used = SYSTEM.getProcessCpuTime();
        while (rows < count) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(10));
            if (records.isEmpty()) {
                throw new IllegalStateException("nothing came after " + rows + " of " + count + " records");
            }
            for (ConsumerRecord<byte[], byte[]> record : records) {
                rows++;
                bytes += record.value().length;
            }
        }
        double seconds = (System.nanoTime() - started) / 1e9, cpu = (SYSTEM.getProcessCpuTime() - used) / 1e9;
        String status = Files.readString(Path.of("/proc/self/status")).split("VmHWM:")[1].strip().split(" ")[0];
        return "{\"rows\":" + rows + ",\"bytes\":" + bytes + ",\"seconds\":" + seconds + ",\"cpu\":" + cpu
            + ",\"rss_mib\":" + Double.parseDouble(status) / 1024 + "}";
    }
}
