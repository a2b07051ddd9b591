import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's own clients, controlled by lines of JSON. Each line of standard input is a command, and each line of
 * standard output is a response, {"ok": ...} or {"error": "..."}. Bytes are in Base64; a missing timestamp is null.
 */
public class Peer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
    private static final Map<String, Member> MEMBERS = new HashMap<>();

    /** A group consumer that polls in its own thread and records its partitions after each poll and the values. */
    private static final class Member extends Thread {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final List<String> topics;
        private final Queue<byte[]> values = new ConcurrentLinkedQueue<>();
        private volatile Set<TopicPartition> owned = Set.of();
        private volatile boolean leaving;
        private volatile Exception failure;

        Member(KafkaConsumer<byte[], byte[]> consumer, List<String> topics) {
            this.consumer = consumer;
            this.topics = topics;
            setDaemon(true);
        }

        @Override
        public void run() {
            try (consumer) {
                consumer.subscribe(topics);
                while (!leaving) {
                    consumer.poll(Duration.ofMillis(50)).forEach(record -> values.add(record.value()));
                    owned = Set.copyOf(consumer.assignment());
                }
            } catch (Exception error) {
                failure = error;
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("ok", run(JSON.readTree(line)));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        PRODUCERS.values().forEach(producer -> producer.close(Duration.ZERO));
    }

    private static JsonNode run(JsonNode command) throws Exception {
        switch (command.get("op").asText()) {
            case "configure": return configure(command);
            case "ends": return ends(command);
            case "read": return read(command);
            case "committed": return committed(command);
            case "open": return open(command);
            case "send": return send(command);
            case "join": return join(command);
            case "look": return look(command);
            case "leave": return leave(command);
            default: return control(command);
        }
    }

    /** Sets configs of a topic. */
    private static JsonNode configure(JsonNode command) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        strings(command.get("configs")).forEach(
            (name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, (String) value), AlterConfigOp.OpType.SET)));
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, command.get("topic").asText());
        try (Admin admin = Admin.create(strings(command.get("config")))) {
            admin.incrementalAlterConfigs(Map.of(topic, changes)).all().get();
        }
        return JSON.nullNode();
    }

    /** Opens a producer, which later commands use by its name. */
    private static JsonNode open(JsonNode command) {
        String name = command.get("name").asText();
        if (PRODUCERS.containsKey(name)) {
            throw new IllegalStateException("there is a producer " + name + " already");
        }
        PRODUCERS.put(
            name,
            new KafkaProducer<>(strings(command.get("config")), new ByteArraySerializer(), new ByteArraySerializer()));
        return JSON.nullNode();
    }

    /** Runs a transactional operation of a producer, or closes the producer. */
    private static JsonNode control(JsonNode command) {
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(command.get("name").asText());
        switch (command.get("op").asText()) {
            case "init": producer.initTransactions(); break;
            case "begin": producer.beginTransaction(); break;
            case "commit": producer.commitTransaction(); break;
            case "abort": producer.abortTransaction(); break;
            case "offset": producer.sendOffsetsToTransaction(
                Map.of(
                    new TopicPartition(command.get("topic").asText(), command.get("partition").asInt()),
                    new OffsetAndMetadata(command.get("offset").asLong())),
                new ConsumerGroupMetadata(command.get("group").asText()));
                break;
            case "close": PRODUCERS.remove(command.get("name").asText()).close(Duration.ZERO); break;
            default: throw new IllegalArgumentException("unknown op " + command.get("op"));
        }
        return JSON.nullNode();
    }

    /** Sends records [key, value, headers, timestamp], waits until all are delivered, and returns their offsets. */
    private static JsonNode send(JsonNode command) throws Exception {
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(command.get("name").asText());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode r : command.get("records")) {
            Long timestamp = r.get(3).isNull() ? null : r.get(3).asLong();
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                command.get("topic").asText(), command.get("partition").asInt(), timestamp, bytes(r.get(0)), bytes(r.get(1)));
            for (JsonNode header : r.get(2)) {
                record.headers().add(header.get(0).asText(), bytes(header.get(1)));
            }
            sent.add(producer.send(record));
        }
        producer.flush();
        ArrayNode offsets = JSON.createArrayNode();
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get().offset());
        }
        return offsets;
    }

    /** Starts a group member, which polls until the command "leave". */
    private static JsonNode join(JsonNode command) {
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        Member member = new Member(
            new KafkaConsumer<>(
                strings(command.get("config")), new ByteArrayDeserializer(), new ByteArrayDeserializer()),
            topics);
        MEMBERS.put(command.get("name").asText(), member);
        member.start();
        return JSON.nullNode();
    }

    /** Returns the partitions of a member as [topic, partition], and the values read since the last call. */
    private static JsonNode look(JsonNode command) throws Exception {
        Member member = MEMBERS.get(command.get("name").asText());
        if (member.failure != null) {
            throw member.failure;
        }
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode owned = answer.putArray("owned");
        member.owned.forEach(tp -> owned.addArray().add(tp.topic()).add(tp.partition()));
        ArrayNode values = answer.putArray("values");
        for (byte[] value = member.values.poll(); value != null; value = member.values.poll()) {
            values.add(value);
        }
        return answer;
    }

    /** Closes a member, which leaves the group. */
    private static JsonNode leave(JsonNode command) throws Exception {
        Member member = MEMBERS.remove(command.get("name").asText());
        member.leaving = true;
        member.join(PATIENCE.toMillis());
        if (member.failure != null) {
            throw member.failure;
        }
        return JSON.nullNode();
    }

    /** Returns the end offsets of partitions for the isolation level in the config. */
    private static JsonNode ends(JsonNode command) {
        ArrayNode answer = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            List<TopicPartition> partitions = partitions(command);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            partitions.forEach(tp -> answer.add(ends.get(tp)));
        }
        return answer;
    }

    /** Returns the committed offset of each partition as [offset, metadata], or null. */
    private static JsonNode committed(JsonNode command) {
        ArrayNode answer = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            List<TopicPartition> partitions = partitions(command);
            Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(Set.copyOf(partitions));
            for (TopicPartition partition : partitions) {
                OffsetAndMetadata at = found.get(partition);
                if (at == null) {
                    answer.addNull();
                } else {
                    answer.addArray().add(at.offset()).add(at.metadata());
                }
            }
        }
        return answer;
    }

    /**
     * Reads partitions from the beginning until the positions equal "until". For each poll that moved a position, returns
     * the records [partition, offset, timestamp, timestamp type, key, value, headers] and the positions after the poll.
     */
    private static JsonNode read(JsonNode command) {
        ArrayNode polls = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            List<TopicPartition> partitions = partitions(command);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            JsonNode until = command.get("until");
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            ArrayNode before = positions(consumer, partitions);
            while (!reached(before, until)) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                ArrayNode after = positions(consumer, partitions);
                if (!records.isEmpty() || !after.equals(before)) {
                    ObjectNode poll = polls.addObject();
                    ArrayNode rows = poll.putArray("records");
                    records.forEach(record -> rows.add(row(record)));
                    poll.set("positions", after);
                }
                before = after;
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("stalled at " + after + " of " + until);
                }
            }
        }
        return polls;
    }

    private static boolean reached(ArrayNode positions, JsonNode until) {
        for (int i = 0; i < positions.size(); i++) {
            if (positions.get(i).asLong() < until.get(i).asLong()) {
                return false;
            }
        }
        return true;
    }

    private static ArrayNode positions(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions) {
        ArrayNode positions = JSON.createArrayNode();
        partitions.forEach(tp -> positions.add(consumer.position(tp)));
        return positions;
    }

    private static ArrayNode row(ConsumerRecord<byte[], byte[]> record) {
        ArrayNode row = JSON.createArrayNode();
        row.add(record.partition()).add(record.offset());
        row.add(record.timestamp() < 0 ? null : record.timestamp()).add(record.timestampType().id);
        row.add(record.key()).add(record.value());
        ArrayNode headers = row.addArray();
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return row;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        Map<String, Object> config = strings(command.get("config"));
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "none");
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<TopicPartition> partitions(JsonNode command) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode partition : command.get("partitions")) {
            partitions.add(new TopicPartition(command.get("topic").asText(), partition.asInt()));
        }
        return partitions;
    }

    private static Map<String, Object> strings(JsonNode node) {
        Map<String, Object> map = new HashMap<>();
        node.fields().forEachRemaining(field -> map.put(field.getKey(), field.getValue().asText()));
        return map;
    }

    private static byte[] bytes(JsonNode node) throws Exception {
        return node.isNull() ? null : node.binaryValue();
    }
}
