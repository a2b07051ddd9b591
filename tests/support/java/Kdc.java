import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Properties;
import org.apache.hadoop.minikdc.MiniKdc;

/**
 * A KDC on a free loopback port, which is printed as the first line. Each line of standard input contains the path of a
 * keytab and the principals to create in it. The response to each line is "ok". The KDC stops at the end of standard
 * input.
 */
public class Kdc {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        // Logs to standard error.
        System.setOut(System.err);
        Properties options = MiniKdc.createConf();
        options.setProperty(MiniKdc.ORG_NAME, arguments[1]);
        options.setProperty(MiniKdc.ORG_DOMAIN, arguments[2]);
        options.setProperty(MiniKdc.KDC_BIND_ADDRESS, "127.0.0.1");
        options.setProperty(MiniKdc.TRANSPORT, "TCP");
        options.setProperty(MiniKdc.MIN_TICKET_LIFETIME, "1");
        MiniKdc kdc = new MiniKdc(options, new File(arguments[0]));
        kdc.start();
        out.println(kdc.getPort());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            kdc.createPrincipal(new File(words[0]), Arrays.copyOfRange(words, 1, words.length));
            out.println("ok");
        }
        kdc.stop();
        System.exit(0);
    }
}
