import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

/** Decodes messages with Kafka's classes and encodes them again. Lines: API key, `request` or `response`, version, hex. */
public final class Recode {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(recoded(line.split(" ", -1)));
        }
    }

    private static String recoded(String[] fields) {
        try {
            short version = Short.parseShort(fields[2]);
            ApiMessageType api = ApiMessageType.fromApiKey(Short.parseShort(fields[0]));
            if (version < api.lowestSupportedVersion() || version > api.highestSupportedVersion(true)) {
                return "unsupported";
            }
            ApiMessage message = fields[1].equals("request") ? api.newRequest() : api.newResponse();
            var input = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(fields[3])));
            message.read(input, version);
            if (input.remaining() != 0) {
                return "error " + input.remaining() + " bytes are left";
            }
            ByteBuffer output = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[output.remaining()];
            output.get(bytes);
            return HexFormat.of().formatHex(bytes) + " " + api.highestSupportedVersion(true);
        } catch (RuntimeException error) {
            return "error " + error;
        }
    }
}
