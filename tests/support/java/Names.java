import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Runs Java clients named java-producer, java-consumer and java-admin long enough for one telemetry push. */
public class Names {
    public static void main(String[] args) throws Exception {
        String servers = args[0];
        Map<String, Object> producing = Map.of("bootstrap.servers", servers, "client.id", "java-producer");
        Map<String, Object> consuming = Map.of(
            "bootstrap.servers", servers, "client.id", "java-consumer", "group.id", "java", "auto.offset.reset", "earliest");
        var producer = new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer());
        var consumer = new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        var admin = Admin.create(Map.of("bootstrap.servers", servers, "client.id", "java-admin", "enable.metrics.push", "true"));
        producer.send(new ProducerRecord<>(args[1], new byte[10])).get();
        consumer.subscribe(List.of(args[1]));
        admin.listTopics().names().get();
        long end = System.nanoTime() + Duration.ofMillis(Long.parseLong(args[2])).toNanos();
        while (System.nanoTime() < end) {
            consumer.poll(Duration.ofMillis(100));
            consumer.commitSync();
        }
        admin.close();
        consumer.close();
        producer.close();
    }
}
