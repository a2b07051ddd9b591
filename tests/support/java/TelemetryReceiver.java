import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** Receives client telemetry (KIP-714) and writes each payload to a file in the folder `telemetry.folder`. */
public class TelemetryReceiver implements ClientTelemetry, MetricsReporter, ClientTelemetryReceiver {
    private static final AtomicInteger COUNT = new AtomicInteger();
    private Path folder;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = Path.of((String) configs.get("telemetry.folder"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        ByteBuffer data = payload.data().duplicate();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        String name = String.format(
            "%05d-%s-%s-%s",
            COUNT.incrementAndGet(), context.clientId(), payload.clientInstanceId(), payload.isTerminating() ? "last" : "more");
        try {
            Path part = folder.resolve(name + ".part");
            Files.write(part, bytes);
            // The file is renamed when it is complete.
            Files.move(part, folder.resolve(name + ".pb"));
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
