import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;

/**
 * One OpenSearch node with the plugins that are on the class path: the published jars hold the
 * server and its modules, but no way to start them.
 *
 * Arguments: home, a key=value for each setting, the class of each plugin.
 */
final class OsNode extends Node {
    private OsNode(Environment environment, Collection<Class<? extends Plugin>> plugins) {
        super(environment, plugins, false);
    }

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]);
        Settings.Builder settings = Settings.builder().put("path.home", home.toString());
        List<Class<? extends Plugin>> plugins = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            if (equals < 0) {
                plugins.add(Class.forName(arguments[i]).asSubclass(Plugin.class));
            } else {
                settings.put(arguments[i].substring(0, equals), arguments[i].substring(equals + 1));
            }
        }
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings.build(), Map.of(), home.resolve("config"), () -> "headwater");
        OsNode node = new OsNode(environment, plugins);
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (java.io.IOException error) {
                error.printStackTrace();
            } finally {
                stopped.countDown();
            }
        }));
        node.start();
        stopped.await();
    }
}
