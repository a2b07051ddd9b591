import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints the defaults of Java's clients: client, option and value, separated by tabs. */
public class Defaults {
    public static void main(String[] arguments) {
        print("consumer", ConsumerConfig.configDef());
        print("producer", ProducerConfig.configDef());
        print("admin", AdminClientConfig.configDef());
    }

    private static void print(String client, ConfigDef options) {
        for (ConfigDef.ConfigKey option : options.configKeys().values()) {
            if (option.hasDefault() && option.defaultValue != null) {
                System.out.println(client + "\t" + option.name + "\t" + ConfigDef.convertToString(option.defaultValue, option.type));
            }
        }
    }
}
