import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * Runs the statements of a file, apart by ";" at the end of a line, one after the other, in a
 * cluster of this process. Bounded jobs are awaited.
 */
final class FlinkSql {
    public static void main(String[] arguments) throws Exception {
        TableEnvironment tables =
                TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().build());
        for (String statement : Files.readString(Path.of(arguments[0])).split(";\\s*\\n")) {
            if (!statement.isBlank()) {
                TableResult result = tables.executeSql(statement);
                if (result.getJobClient().isPresent()) {
                    result.await();
                }
            }
        }
        System.exit(0);
    }
}
