import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.Encoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.message.BinaryMessageEncoder;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

/**
 * Writes and reads Avro with Apache's and Apicurio's libraries, and JSON and Protobuf with Apicurio's. Each line of
 * standard input is a request in JSON, and each line of standard output is a response. Values are in Base64.
 *
 * {"op": "write", "schema": text, "values": []} -> {"plain": [], "blocked": [], "single": []}
 * {"op": "read", "writer": text, "reader": text, "values": []} -> {"read": [{"ok": value} or {"error": text}]}
 * {"op": "serialize", "schema": text, "values": [], "topic": name, "config": {}}
 *   -> {"sent": [{"value": bytes, "headers": {}}], "read": as above}
 * {"op": "json", "values": [], "topic": name, "config": {}} -> {"sent": as above, "read": [{"ok": bytes}]}
 * {"op": "protobuf", "file": FileDescriptorProto, "message": name, and as for json}
 * {"op": "deserialize", "format": "json" or "protobuf", "values": [], "topic": name, "config": {}} -> {"read": [{"ok": bytes}]}
 */
public class Serdes {
    static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    public static void main(String[] args) throws Exception {
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // The output of libraries must not be mixed with the responses.
        System.setOut(System.err);
        var mapper = new ObjectMapper();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null;) {
            ObjectNode answer = JSON.objectNode();
            try {
                JsonNode task = mapper.readTree(line);
                switch (task.get("op").asText()) {
                    case "write" -> write(task, answer);
                    case "read" -> read(task, answer);
                    case "json" -> json(task, answer, mapper);
                    case "protobuf" -> protobuf(task, answer);
                    case "deserialize" -> deserialize(task, answer, mapper);
                    default -> serialize(task, answer);
                }
            } catch (Exception e) {
                answer = JSON.objectNode().put("error", e.toString());
            }
            out.println(mapper.writeValueAsString(answer));
        }
    }

    /** Parses a schema with a new parser, which does not know the names of earlier schemas. */
    static Schema schema(JsonNode text) {
        return new Schema.Parser().parse(text.asText());
    }

    static Object decoded(byte[] value, Schema writer, Schema reader) throws IOException {
        var decoder = DecoderFactory.get().binaryDecoder(value, null);
        Object datum = new GenericDatumReader<>(writer, reader).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IOException("bytes are left");
        }
        return datum;
    }

    interface Encoders {
        Encoder to(ByteArrayOutputStream out);
    }

    static byte[] encoded(Object datum, Schema schema, Encoders encoders) throws IOException {
        var out = new ByteArrayOutputStream();
        var encoder = encoders.to(out);
        new GenericDatumWriter<>(schema).write(datum, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    static void write(JsonNode task, ObjectNode answer) throws IOException {
        Schema schema = schema(task.get("schema"));
        var factory = new EncoderFactory();
        // With the smallest block size, arrays and maps are divided into several blocks with their sizes in bytes.
        var blocking = new EncoderFactory().configureBlockSize(64);
        var single = new BinaryMessageEncoder<>(new GenericData(), schema);
        ArrayNode plain = answer.putArray("plain"), blocked = answer.putArray("blocked");
        ArrayNode fingerprinted = answer.putArray("single");
        for (JsonNode value : task.get("values")) {
            Object datum = decoded(value.binaryValue(), schema, schema);
            plain.add(encoded(datum, schema, out -> factory.binaryEncoder(out, null)));
            blocked.add(encoded(datum, schema, out -> blocking.blockingBinaryEncoder(out, null)));
            fingerprinted.add(bytes(single.encode(datum)));
        }
    }

    static void read(JsonNode task, ObjectNode answer) throws IOException {
        Schema writer = schema(task.get("writer")), reader = schema(task.get("reader"));
        ArrayNode read = answer.putArray("read");
        for (JsonNode value : task.get("values")) {
            ObjectNode one = read.addObject();
            try {
                one.set("ok", shown(decoded(value.binaryValue(), writer, reader), reader));
            } catch (Exception e) {
                one.put("error", e.toString());
            }
        }
    }

    interface Datum<T, F> {
        F of(T value) throws Exception;
    }

    static Map<String, Object> config(JsonNode task) {
        Map<String, Object> config = new HashMap<>();
        task.get("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    /** Serializes values, and deserializes the results. */
    static <T> void send(
            JsonNode task, ObjectNode answer, Serializer<T> serializer, Deserializer<T> deserializer,
            Datum<byte[], T> datum, Datum<T, JsonNode> shown) throws Exception {
        String topic = task.get("topic").asText();
        ArrayNode sent = answer.putArray("sent"), read = answer.putArray("read");
        try (serializer; deserializer) {
            serializer.configure(config(task), false);
            deserializer.configure(config(task), false);
            for (JsonNode value : task.get("values")) {
                var headers = new RecordHeaders();
                byte[] bytes = serializer.serialize(topic, headers, datum.of(value.binaryValue()));
                ObjectNode named = sent.addObject().put("value", bytes).putObject("headers");
                for (Header header : headers) {
                    named.put(header.key(), header.value());
                }
                read.addObject().set("ok", shown.of(deserializer.deserialize(topic, headers, bytes)));
            }
        }
    }

    static void serialize(JsonNode task, ObjectNode answer) throws Exception {
        Schema schema = schema(task.get("schema"));
        send(task, answer, new AvroKafkaSerializer<Object>(), new AvroKafkaDeserializer<Object>(),
            value -> decoded(value, schema, schema), datum -> shown(datum, schema));
    }

    static void json(JsonNode task, ObjectNode answer, ObjectMapper mapper) throws Exception {
        send(task, answer, new JsonSchemaKafkaSerializer<JsonNode>(), new JsonSchemaKafkaDeserializer<JsonNode>(),
            mapper::readTree, datum -> JSON.binaryNode(mapper.writeValueAsBytes(datum)));
    }

    static void protobuf(JsonNode task, ObjectNode answer) throws Exception {
        var file = FileDescriptorProto.parseFrom(task.get("file").binaryValue());
        Descriptor message = FileDescriptor.buildFrom(file, new FileDescriptor[0])
            .findMessageTypeByName(task.get("message").asText());
        send(task, answer, new ProtobufKafkaSerializer<Message>(), new ProtobufKafkaDeserializer<Message>(),
            value -> DynamicMessage.parseFrom(message, value), datum -> JSON.binaryNode(datum.toByteArray()));
    }

    /** Deserializes values written by other serializers. */
    static void deserialize(JsonNode task, ObjectNode answer, ObjectMapper mapper) throws Exception {
        boolean json = task.get("format").asText().equals("json");
        ArrayNode read = answer.putArray("read");
        try (Deserializer<?> deserializer = json ? new JsonSchemaKafkaDeserializer<JsonNode>() : new ProtobufKafkaDeserializer<Message>()) {
            deserializer.configure(config(task), false);
            for (JsonNode value : task.get("values")) {
                Object datum = deserializer.deserialize(task.get("topic").asText(), value.binaryValue());
                byte[] bytes = datum instanceof Message message ? message.toByteArray() : mapper.writeValueAsBytes(datum);
                read.addObject().put("ok", bytes);
            }
        }
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    /**
     * Converts a value to JSON without loss: bytes to Base64, floats to the hex digits of their bits, decimals to unscaled
     * integers as text, and values of unions with several branches to objects with the name of the branch.
     */
    static JsonNode shown(Object datum, Schema schema) {
        if (schema.getLogicalType() instanceof LogicalTypes.Decimal) {
            byte[] digits = datum instanceof GenericFixed fixed ? fixed.bytes() : bytes((ByteBuffer) datum);
            return JSON.textNode(new BigInteger(digits).toString());
        }
        switch (schema.getType()) {
            case NULL:
                return JSON.nullNode();
            case BOOLEAN:
                return JSON.booleanNode((Boolean) datum);
            case INT:
            case LONG:
                return JSON.numberNode(((Number) datum).longValue());
            case FLOAT:
                return JSON.textNode(String.format("%08x", Float.floatToRawIntBits((Float) datum)));
            case DOUBLE:
                return JSON.textNode(String.format("%016x", Double.doubleToRawLongBits((Double) datum)));
            case STRING:
            case ENUM:
                return JSON.textNode(datum.toString());
            case FIXED:
                return JSON.binaryNode(((GenericFixed) datum).bytes());
            case BYTES:
                return JSON.binaryNode(bytes((ByteBuffer) datum));
            case ARRAY:
                ArrayNode items = JSON.arrayNode();
                ((Collection<?>) datum).forEach(item -> items.add(shown(item, schema.getElementType())));
                return items;
            case MAP:
                ObjectNode entries = JSON.objectNode();
                Schema values = schema.getValueType();
                ((Map<?, ?>) datum).forEach((key, value) -> entries.set(key.toString(), shown(value, values)));
                return entries;
            case RECORD:
                ObjectNode fields = JSON.objectNode();
                for (Schema.Field field : schema.getFields()) {
                    fields.set(field.name(), shown(((IndexedRecord) datum).get(field.pos()), field.schema()));
                }
                return fields;
            default:
                Schema member = schema.getTypes().get(GenericData.get().resolveUnion(schema, datum));
                List<Schema> others = schema.getTypes().stream().filter(one -> one.getType() != Schema.Type.NULL).toList();
                JsonNode value = shown(datum, member);
                boolean bare = member.getType() == Schema.Type.NULL || others.size() == 1;
                return bare ? value : JSON.objectNode().set(member.getName(), value);
        }
    }
}
