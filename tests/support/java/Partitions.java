// Prints the partition that Java's producer selects for each key. The keys are read from standard input in hexadecimal,
// one per line; the argument is the number of partitions.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

public class Partitions {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        StringBuilder out = new StringBuilder();
        try (BufferedReader keys = new BufferedReader(new InputStreamReader(System.in))) {
            for (String key = keys.readLine(); key != null; key = keys.readLine()) {
                out.append(BuiltInPartitioner.partitionForKey(HexFormat.of().parseHex(key), count)).append('\n');
            }
        }
        System.out.print(out);
    }
}
