import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java counterpart of clients/latency.py; nanoTime is CLOCK_MONOTONIC on Linux. */
public final class Latency {
    private static final long BETWEEN_NS = 1_000_000;
    private static final int LENGTH = 100;

    public static void main(String[] arguments) {
        int count = Integer.parseInt(arguments[3]);
        if (arguments[0].equals("send")) {
            send(arguments[1], arguments[2], count);
        } else {
            read(arguments[1], arguments[2], count);
        }
    }

    private static void send(String servers, String topic, int count) {
        Map<String, Object> options = Map.of(
            "bootstrap.servers", servers,
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class,
            "linger.ms", "0",
            "acks", "all");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(options)) {
            producer.partitionsFor(topic);
            long first = System.nanoTime();
            for (int number = 0; number < count; number++) {
                for (long left; (left = first + number * BETWEEN_NS - System.nanoTime()) > 0; ) {
                    LockSupport.parkNanos(left);
                }
                byte[] value = ByteBuffer.allocate(LENGTH).putLong(number).putLong(System.nanoTime()).array();
                producer.send(new ProducerRecord<>(topic, value));
            }
        }
        System.out.println("null");
    }

    private static void read(String servers, String topic, int count) {
        Map<String, Object> options = Map.of(
            "bootstrap.servers", servers,
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class,
            "enable.auto.commit", "false",
            "auto.offset.reset", "earliest");
        double[] micros = new double[count];
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            consumer.poll(Duration.ofSeconds(1));
            System.out.println("ready");
            for (int come = 0; come < count; ) {
                Iterable<ConsumerRecord<byte[], byte[]>> records = consumer.poll(Duration.ofSeconds(10));
                long now = System.nanoTime();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    ByteBuffer value = ByteBuffer.wrap(record.value());
                    long number = value.getLong();
                    if (number != come) {
                        throw new IllegalStateException("record " + number + " came where " + come + " was next");
                    }
                    micros[come++] = (now - value.getLong()) / 1e3;
                }
            }
        }
        System.out.println(java.util.Arrays.toString(micros));
    }
}
