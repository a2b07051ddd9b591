import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Runs group members in threads; prints the seconds until all partitions are assigned. */
public final class Rebalance {
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1];
        int members = Integer.parseInt(arguments[2]), partitions = Integer.parseInt(arguments[3]);
        Map<Integer, Integer> owned = new ConcurrentHashMap<>();
        AtomicBoolean over = new AtomicBoolean();
        // Warm-up: loads and compiles code before the measurement.
        try (KafkaConsumer<byte[], byte[]> warm = new KafkaConsumer<>(options(servers))) {
            warm.partitionsFor(topic);
        }
        long started = System.nanoTime();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < members; i++) {
            int number = i;
            Thread thread = new Thread(() -> {
                try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options(servers))) {
                    consumer.subscribe(List.of(topic));
                    while (!over.get()) {
                        consumer.poll(Duration.ofMillis(100));
                        owned.put(number, consumer.assignment().size());
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        long deadline = started + 120_000_000_000L;
        while (owned.values().stream().mapToInt(Integer::intValue).sum() != partitions
                || owned.size() != members || owned.containsValue(0)) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not shared: " + owned);
            }
            Thread.sleep(10);
        }
        System.out.println((System.nanoTime() - started) / 1e9);
        over.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static Map<String, Object> options(String servers) {
        return Map.of(
            "bootstrap.servers", servers,
            "group.id", "java-rebalance",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class,
            "heartbeat.interval.ms", "100",
            "session.timeout.ms", "6000",
            "enable.auto.commit", "false",
            "auto.offset.reset", "earliest",
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    }
}
