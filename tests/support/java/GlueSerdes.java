import com.amazonaws.services.schemaregistry.deserializers.GlueSchemaRegistryKafkaDeserializer;
import com.amazonaws.services.schemaregistry.serializers.GlueSchemaRegistryKafkaSerializer;
import com.amazonaws.services.schemaregistry.serializers.json.JsonDataWithSchema;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericContainer;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;

/**
 * Writes and reads values with the serializers of AWS Glue Schema Registry. Each line of standard input is a request in
 * JSON, and each line of standard output is a response. Values are in Base64.
 *
 * {"op": "write", "format": "AVRO", "schema": text, "values": [encoded without frame], "topic": name, "config": {}}
 * {"op": "write", "format": "JSON", as for AVRO}
 * {"op": "write", "format": "PROTOBUF", "file": FileDescriptorProto, "message": name, as for AVRO}
 *   -> {"values": []}
 * {"op": "read", "format": name, "values": [], "topic": name, "config": {}} -> {"values": [encoded without frame]}
 */
public class GlueSerdes {
    private static final StaticCredentialsProvider CREDENTIALS =
            StaticCredentialsProvider.create(AwsBasicCredentials.create("id", "secret"));

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            ObjectNode response = json.createObjectNode();
            try {
                JsonNode request = json.readTree(line);
                ArrayNode values = response.putArray("values");
                if (request.get("op").asText().equals("write")) write(request, values);
                else read(request, values);
            } catch (Exception error) {
                StringBuilder text = new StringBuilder();
                for (Throwable cause = error; cause != null; cause = cause.getCause()) text.append(cause).append("; ");
                response.put("error", text.toString());
            }
            out.println(response);
        }
    }

    private static Map<String, Object> config(JsonNode request) {
        Map<String, Object> config = new HashMap<>();
        request.get("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        config.put("dataFormat", request.get("format").asText());
        config.put("schemaAutoRegistrationEnabled", "true");
        config.put("avroRecordType", "GENERIC_RECORD");
        config.put("protobufMessageType", "DYNAMIC_MESSAGE");
        return config;
    }

    private static void write(JsonNode request, ArrayNode values) throws Exception {
        try (var serializer = new GlueSchemaRegistryKafkaSerializer(CREDENTIALS, config(request))) {
            serializer.configure(config(request), false);
            for (JsonNode value : request.get("values")) {
                Object object = object(request, value.binaryValue());
                values.add(serializer.serialize(request.get("topic").asText(), object));
            }
        }
    }

    private static Object object(JsonNode request, byte[] value) throws Exception {
        switch (request.get("format").asText()) {
            case "AVRO" -> {
                Schema schema = new Schema.Parser().parse(request.get("schema").asText());
                return new GenericDatumReader<>(schema).read(null, DecoderFactory.get().binaryDecoder(value, null));
            }
            case "JSON" -> {
                String text = new String(value, StandardCharsets.UTF_8);
                return JsonDataWithSchema.builder(request.get("schema").asText(), text).build();
            }
            default -> {
                FileDescriptorProto file = FileDescriptorProto.parseFrom(request.get("file").binaryValue());
                Descriptor message = FileDescriptor.buildFrom(file, new FileDescriptor[0]).getMessageTypes().get(0);
                for (String name : request.get("message").asText().split("\\.")) {
                    Descriptor nested = message.findNestedTypeByName(name);
                    message = nested == null ? message.getFile().findMessageTypeByName(name) : nested;
                }
                return DynamicMessage.parseFrom(message, value);
            }
        }
    }

    private static void read(JsonNode request, ArrayNode values) throws Exception {
        try (var deserializer = new GlueSchemaRegistryKafkaDeserializer(CREDENTIALS, config(request))) {
            deserializer.configure(config(request), false);
            for (JsonNode value : request.get("values")) {
                Object read = deserializer.deserialize(request.get("topic").asText(), value.binaryValue());
                if (read instanceof Message message) {
                    values.add(message.toByteArray());
                } else if (read instanceof JsonDataWithSchema data) {
                    values.add(data.getPayload().getBytes(StandardCharsets.UTF_8));
                } else {
                    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                    BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
                    Schema schema = ((GenericContainer) read).getSchema();
                    new GenericDatumWriter<>(schema).write(read, encoder);
                    encoder.flush();
                    values.add(bytes.toByteArray());
                }
            }
        }
    }
}
